package interop;

import java.util.HashMap;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.InvalidClientIDException;
import javax.jms.JMSContext;
import javax.jms.JMSException;
import javax.jms.JMSSecurityException;
import javax.jms.Message;
import javax.jms.Queue;
import javax.jms.QueueRequestor;
import javax.jms.QueueSession;
import javax.jms.Session;
import org.apache.activemq.artemis.api.jms.ActiveMQJMSClient;
import org.apache.activemq.artemis.api.jms.management.JMSManagementHelper;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** Connecting: client ids, credentials, permissions, the simplified API, keep-alive; and management over messages. */
final class ConnectionScenarios {
    private ConnectionScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("connection-client-id", ConnectionScenarios::clientId);
        all.put("connection-shared-client-id", ConnectionScenarios::sharedClientId);
        all.put("connection-wrong-password", ConnectionScenarios::wrongPassword);
        all.put("connection-missing-permission", ConnectionScenarios::missingPermission);
        all.put("connection-keep-alive", ConnectionScenarios::keepAlive);
        all.put("connection-simplified-api", ConnectionScenarios::simplifiedApi);
        all.put("connection-close-while-receiving", ConnectionScenarios::closeWhileReceiving);
        all.put("connection-many-sessions", ConnectionScenarios::manySessions);
        all.put("management-queue-count", ConnectionScenarios::management);
        all.put("management-failed-operation", ConnectionScenarios::failedOperation);
    }

    private static void clientId(Context context) throws Exception {
        String id = context.name("client");
        Connection first = context.connectAs(id, "");
        Context.equal(id, first.getClientID(), "client id");
        Connection second = context.factory("").createConnection(Context.USER, Context.PASSWORD);
        Context.refused(InvalidClientIDException.class, () -> second.setClientID(id), "the same client id again");
        second.close();
        first.close();
        context.connectAs(id, "").close();
        ActiveMQConnectionFactory fixed = context.factory("clientID=" + id);
        Connection third = context.started(fixed);
        Context.refused(JMSException.class, () -> context.started(fixed), "the same client id of one factory");
        third.close();
    }

    private static void sharedClientId(Context context) throws Exception {
        String parameters = "enableSharedClientID=true&clientID=" + context.name("client");
        Connection first = context.connect(parameters);
        Connection second = context.connect(parameters);
        Context.equal(first.getClientID(), second.getClientID(), "client id");
    }

    private static void wrongPassword(Context context) throws Exception {
        ActiveMQConnectionFactory factory = context.factory("");
        Context.refused(JMSSecurityException.class, () -> factory.createConnection(Context.USER, "wrong"), "wrong password");
        Context.refused(JMSSecurityException.class, () -> factory.createConnection("somebody", Context.PASSWORD), "unknown user");
        Context.refused(JMSSecurityException.class, () -> factory.createConnection(), "no credentials");
        context.started(factory).createSession();
    }

    private static void missingPermission(Context context) throws Exception {
        Session allowed = context.connect("").createSession();
        Queue queue = allowed.createQueue(context.name("q"));
        Context.sendTexts(allowed, allowed.createProducer(queue), "not for you");
        Connection connection = context.factory("").createConnection("nobody", "nothing");
        connection.start();
        Session session = connection.createSession();
        Context.refused(JMSSecurityException.class, () -> session.createConsumer(queue), "consuming");
        Context.refused(JMSSecurityException.class, () -> session.createBrowser(queue).getEnumeration().hasMoreElements(), "browsing");
        Context.refused(JMSSecurityException.class, () -> Context.sendTexts(session, session.createProducer(queue), "x"), "sending");
        Context.refused(JMSSecurityException.class, session::createTemporaryQueue, "a temporary queue");
        Context.refused(JMSSecurityException.class, () -> session.createConsumer(session.createQueue(context.name("other"))), "creating");
        connection.close();
        Context.nextTexts(allowed.createConsumer(queue), "not for you");
    }

    private static void keepAlive(Context context) throws Exception {
        Connection connection = context.connect("connectionTTL=4000&clientFailureCheckPeriod=200");
        Session session = connection.createSession();
        Queue queue = session.createQueue(context.name("q"));
        var consumer = session.createConsumer(queue);
        Context.equal(null, consumer.receive(5_500), "nothing for longer than the time to live of the connection");
        Context.sendTexts(session, session.createProducer(queue), "still there");
        Context.nextTexts(consumer, "still there");
    }

    private static void simplifiedApi(Context context) throws Exception {
        try (JMSContext jms = context.factory("").createContext(Context.USER, Context.PASSWORD, JMSContext.SESSION_TRANSACTED)) {
            Queue queue = jms.createQueue(context.name("q"));
            jms.createProducer().setProperty("n", 5).setPriority(8).setJMSType("t").send(queue, "text");
            Map<String, Object> body = new HashMap<>();
            body.put("k", 1L);
            jms.createProducer().send(queue, body);
            jms.createProducer().send(queue, new byte[] {1, 2});
            jms.commit();
            var consumer = jms.createConsumer(queue);
            Message message = consumer.receive(Context.RECEIVE_MS);
            Context.equal("text", message.getBody(String.class), "text");
            Context.equal(5, message.getIntProperty("n"), "property");
            Context.equal(8, message.getJMSPriority(), "priority");
            Context.equal(body, consumer.receiveBody(Map.class, Context.RECEIVE_MS), "map");
            Context.equal(2, consumer.receiveBody(byte[].class, Context.RECEIVE_MS).length, "bytes");
            jms.commit();
        }
    }

    private static void closeWhileReceiving(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession();
        var consumer = session.createConsumer(session.createQueue(context.name("q")));
        Thread receiving = new Thread(() -> {
            try {
                consumer.receive();
            } catch (JMSException closed) {
                // closed is what it has to be
            }
        });
        receiving.start();
        Thread.sleep(50);
        connection.close();
        receiving.join(Context.RECEIVE_MS);
        Context.require(!receiving.isAlive(), "receive() ends with the connection");
    }

    private static void manySessions(Context context) throws Exception {
        Connection connection = context.connect("");
        Queue queue = connection.createSession().createQueue(context.name("q"));
        for (int i = 0; i < 20; i++) {
            Session session = connection.createSession();
            Context.sendTexts(session, session.createProducer(queue), "m" + i);
            Context.nextTexts(session.createConsumer(queue), "m" + i);
            session.close();
        }
    }

    private static Message call(QueueSession session, QueueRequestor requestor, Call call) throws Exception {
        Message request = session.createMessage();
        call.fill(request);
        return requestor.request(request);
    }

    interface Call {
        void fill(Message request) throws Exception;
    }

    private static void management(Context context) throws Exception {
        ActiveMQConnectionFactory factory = context.factory("");
        var connection = factory.createQueueConnection(Context.USER, Context.PASSWORD);
        try {
            connection.start();
            QueueSession session = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(context.name("q"));
            Context.sendTexts(session, session.createProducer(queue), "one", "two");
            String resource = "queue." + queue.getQueueName();
            try (QueueRequestorCloser requestor = new QueueRequestorCloser(session)) {
                Message count = call(session, requestor.requestor, request -> JMSManagementHelper.putAttribute(request, resource, "messageCount"));
                Context.require(JMSManagementHelper.hasOperationSucceeded(count), "reading messageCount");
                Context.equal(2L, ((Number) JMSManagementHelper.getResult(count)).longValue(), "messageCount");
                Message removed = call(session, requestor.requestor,
                    request -> JMSManagementHelper.putOperationInvocation(request, resource, "removeAllMessages"));
                Context.equal(2L, ((Number) JMSManagementHelper.getResult(removed)).longValue(), "removed");
                Message version = call(session, requestor.requestor, request -> JMSManagementHelper.putAttribute(request, "broker", "version"));
                Context.require(!((String) JMSManagementHelper.getResult(version)).isEmpty(), "version");
                Message names = call(session, requestor.requestor,
                    request -> JMSManagementHelper.putOperationInvocation(request, "broker", "listAddresses", ","));
                Context.require(((String) JMSManagementHelper.getResult(names)).contains(queue.getQueueName()), "address is listed");
            }
        } finally {
            connection.close();
        }
    }

    private static void failedOperation(Context context) throws Exception {
        ActiveMQConnectionFactory factory = context.factory("");
        var connection = factory.createQueueConnection(Context.USER, Context.PASSWORD);
        try {
            connection.start();
            QueueSession session = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
            try (QueueRequestorCloser requestor = new QueueRequestorCloser(session)) {
                Message reply = call(session, requestor.requestor,
                    request -> JMSManagementHelper.putAttribute(request, "queue.interop.there.is.none", "messageCount"));
                Context.require(!JMSManagementHelper.hasOperationSucceeded(reply), "an unknown queue is no success");
            }
        } finally {
            connection.close();
        }
    }

    /** A requestor to the management address. */
    private static final class QueueRequestorCloser implements AutoCloseable {
        private final QueueRequestor requestor;

        QueueRequestorCloser(QueueSession session) throws JMSException {
            requestor = new QueueRequestor(session, ActiveMQJMSClient.createQueue("activemq.management"));
        }

        @Override
        public void close() throws JMSException {
            requestor.close();
        }
    }
}
