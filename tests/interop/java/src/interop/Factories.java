package interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import org.apache.activemq.artemis.api.core.TransportConfiguration;
import org.apache.activemq.artemis.api.core.client.TopologyMember;
import org.apache.activemq.artemis.jms.client.ActiveMQConnection;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;
import org.apache.activemq.artemis.jms.client.ActiveMQXAConnectionFactory;

/**
 * Connection factories, of Artemis, or of Open Message Queue where a URL begins with mq:, and what only one kind of them has.
 *
 * <p>The library of Open Message Queue is not there when this is compiled. In such a URL properties of the factory come after a question mark.
 */
final class Factories {
    private static final String OPEN_MQ = "com.sun.messaging.ConnectionFactory";
    private static final String OPEN_MQ_XA = "com.sun.messaging.XAConnectionFactory";
    private static final String ADDRESS_LIST = "imqAddressList";

    private Factories() {
    }

    /** With xa one that makes connections of transaction managers, too. */
    static ConnectionFactory of(String url, boolean xa) throws Exception {
        if (!url.startsWith("mq:")) {
            return xa ? new ActiveMQXAConnectionFactory(url) : new ActiveMQConnectionFactory(url);
        }
        String[] parts = url.split("\\?", 2);
        Object factory = Class.forName(xa ? OPEN_MQ_XA : OPEN_MQ).getDeclaredConstructor().newInstance();
        set(factory, ADDRESS_LIST, parts[0]);
        for (String property : parts.length == 1 ? new String[0] : parts[1].split("&")) {
            String[] pair = property.split("=", 2);
            set(factory, pair[0], pair[1]);
        }
        return (ConnectionFactory) factory;
    }

    private static void set(Object factory, String name, String value) throws Exception {
        factory.getClass().getMethod("setProperty", String.class, String.class).invoke(factory, name, value);
    }

    /** The address of the broker that a connection is with. */
    static String reached(Connection connection) throws Exception {
        if (connection.getClass().getName().startsWith("com.sun.")) {
            return (String) connection.getClass().getMethod("getBrokerAddress").invoke(connection);
        }
        return ((ActiveMQConnection) connection).getSessionFactory().getConnection().getRemoteAddress();
    }

    /** Closes a connection, or a factory where that can be closed. */
    static void close(Object leaving) throws Exception {
        if (leaving instanceof AutoCloseable closeable) {
            closeable.close();
        }
    }

    /** Node id to the ports of primary and backup, as the client of a factory of Artemis knows them. */
    static Map<String, Object> topology(ConnectionFactory factory) throws Exception {
        Map<String, Object> members = new LinkedHashMap<>();
        for (TopologyMember member : ((ActiveMQConnectionFactory) factory).getServerLocator().getTopology().getMembers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(port(primary(member)));
            pair.add(port(member.getBackup()));
            members.put(member.getNodeId(), pair);
        }
        return members;
    }

    private static Object port(TransportConfiguration connector) {
        return connector == null ? null : connector.getParams().get("port");
    }

    /** The method has another name in older libraries. */
    private static TransportConfiguration primary(TopologyMember member) throws Exception {
        try {
            return (TransportConfiguration) TopologyMember.class.getMethod("getPrimary").invoke(member);
        } catch (NoSuchMethodException e) {
            return (TransportConfiguration) TopologyMember.class.getMethod("getLive").invoke(member);
        }
    }
}
