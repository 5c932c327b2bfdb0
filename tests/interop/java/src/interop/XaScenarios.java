package interop;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.QueueRequestor;
import javax.jms.QueueSession;
import javax.jms.Session;
import javax.jms.TransactionInProgressException;
import javax.jms.XAConnection;
import javax.jms.XAJMSContext;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.artemis.api.jms.ActiveMQJMSClient;
import org.apache.activemq.artemis.api.jms.management.JMSManagementHelper;
import org.apache.activemq.artemis.jms.client.ActiveMQXAConnectionFactory;

/** Distributed transactions, driven as a transaction manager drives them. */
final class XaScenarios {
    private static final int FORMAT = 77;
    private static final String AGAIN = "reconnectAttempts=-1&retryInterval=20&retryIntervalMultiplier=1&callTimeout=10000";
    private static final int ALL = XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN;

    private XaScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("xa-two-phase", XaScenarios::twoPhase);
        all.put("xa-one-phase", XaScenarios::onePhase);
        all.put("xa-rollback", XaScenarios::rollback);
        all.put("xa-suspend-resume-join", XaScenarios::suspendResumeJoin);
        all.put("xa-refused", XaScenarios::refused);
        all.put("xa-context", XaScenarios::simplified);
        all.put("xa-outside-of-a-branch", XaScenarios::outside);
        all.put("xa-timeout", XaScenarios::timeout);
        all.put("xa-heuristic-forget", XaScenarios::heuristicForget);
        all.put("xa-reconnect-no-window", XaScenarios::failureInsideABranch);
        all.put("xa-reconnect-window", XaScenarios::reattachedInsideABranch);
        all.put("xa-recover-after-client-crash", XaScenarios::recoverAfterClientCrash);
        all.put("xa-recover-after-kill", XaScenarios::recoverAfterKill);
    }

    /** A branch id of this scenario. */
    record Branch(String transaction, String qualifier) implements Xid {
        @Override
        public int getFormatId() {
            return FORMAT;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return transaction.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public byte[] getBranchQualifier() {
            return qualifier.getBytes(StandardCharsets.UTF_8);
        }

        /** As management names it. */
        String base64() {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            bytes.writeBytes(getBranchQualifier());
            bytes.writeBytes(getGlobalTransactionId());
            bytes.writeBytes(new byte[] {FORMAT, 0, 0, 0});
            return Base64.getUrlEncoder().encodeToString(bytes.toByteArray());
        }
    }

    private static XAConnection connect(Context context, String parameters) throws Exception {
        return started(context, context.xaFactory(parameters));
    }

    private static XAConnection started(Context context, ActiveMQXAConnectionFactory factory) throws JMSException {
        XAConnection connection = factory.createXAConnection(Context.USER, Context.PASSWORD);
        context.closeLater(connection::close);
        connection.start();
        return connection;
    }

    /** A branch in which the texts are sent; it is not ended. */
    private static Branch begin(Context context, XASession session, Queue queue, String qualifier, String... texts) throws Exception {
        Branch branch = new Branch(context.name("tx"), qualifier);
        session.getXAResource().start(branch, XAResource.TMNOFLAGS);
        send(session, queue, texts);
        return branch;
    }

    private static void send(XASession session, Queue queue, String... texts) throws Exception {
        if (texts.length > 0) {
            var producer = session.createProducer(queue);
            Context.sendTexts(session, producer, texts);
            producer.close();
        }
    }

    private static MessageConsumer observer(Context context, Queue queue) throws Exception {
        return context.connect("").createSession().createConsumer(queue);
    }

    private static void fails(int code, Context.Action action, String what) {
        XAException thrown = Context.refused(XAException.class, action, what);
        Context.equal(code, thrown.errorCode, "errorCode of " + what);
    }

    /** Qualifiers of the branches of this scenario that wait for their outcome. */
    private static Set<String> inDoubt(Context context, XAResource resource) throws XAException {
        Set<String> found = new TreeSet<>();
        for (Xid xid : resource.recover(ALL)) {
            if (Arrays.equals(xid.getGlobalTransactionId(), context.name("tx").getBytes(StandardCharsets.UTF_8))) {
                Context.equal(FORMAT, xid.getFormatId(), "format id");
                found.add(new String(xid.getBranchQualifier(), StandardCharsets.UTF_8));
            }
        }
        return found;
    }

    private static void twoPhase(Context context) throws Exception {
        XAConnection connection = connect(context, "");
        XASession first = connection.createXASession();
        XASession second = connection.createXASession();
        Queue queue = first.createQueue(context.name("q"));
        MessageConsumer observer = observer(context, queue);
        Branch one = begin(context, first, queue, "1", "from one");
        Branch two = begin(context, second, queue, "2", "from two");
        Context.require(first.getXAResource().isSameRM(second.getXAResource()), "one broker is one resource manager");
        first.getXAResource().end(one, XAResource.TMSUCCESS);
        second.getXAResource().end(two, XAResource.TMSUCCESS);
        Context.equal(XAResource.XA_OK, first.getXAResource().prepare(one), "prepare");
        Context.equal(XAResource.XA_OK, second.getXAResource().prepare(two), "prepare");
        Context.equal(XAResource.XA_OK, second.getXAResource().prepare(two), "prepare once more");
        Context.nothing(observer);
        first.getXAResource().commit(one, false);
        Context.nextTexts(observer, "from one");
        second.getXAResource().commit(two, false);
        Context.nextTexts(observer, "from two");
        Context.equal(Set.of(), inDoubt(context, first.getXAResource()), "in doubt after all");
    }

    private static void onePhase(Context context) throws Exception {
        XASession session = connect(context, "").createXASession();
        Queue queue = session.createQueue(context.name("q"));
        MessageConsumer observer = observer(context, queue);
        Branch sending = begin(context, session, queue, "1", "m0", "m1");
        session.getXAResource().end(sending, XAResource.TMSUCCESS);
        Context.nothing(observer);
        session.getXAResource().commit(sending, true);
        Context.nextTexts(observer, "m0");
        observer.close();
        Branch receiving = begin(context, session, queue, "2");
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "m1");
        session.getXAResource().end(receiving, XAResource.TMSUCCESS);
        session.getXAResource().commit(receiving, true);
        consumer.close();
        Context.nothing(observer(context, queue));
    }

    private static void rollback(Context context) throws Exception {
        XASession session = connect(context, "").createXASession();
        XAResource resource = session.getXAResource();
        Queue queue = session.createQueue(context.name("q"));
        Session plain = context.connect("").createSession();
        Context.sendTexts(plain, plain.createProducer(queue), "m0", "m1");
        MessageConsumer consumer = session.createConsumer(queue);
        for (int round = 0; round < 3; round++) {
            Branch branch = begin(context, session, queue, "r" + round, "never");
            Context.delivered(Context.next(consumer), "m0", round + 1);
            resource.end(branch, round == 0 ? XAResource.TMFAIL : XAResource.TMSUCCESS);
            if (round == 2) {
                resource.prepare(branch);
            }
            resource.rollback(branch);
        }
        Branch branch = begin(context, session, queue, "c");
        Context.delivered(Context.next(consumer), "m0", 4);
        Context.equal("m1", Context.nextText(consumer), "text");
        resource.end(branch, XAResource.TMSUCCESS);
        resource.commit(branch, true);
        Context.nothing(consumer);
    }

    private static void suspendResumeJoin(Context context) throws Exception {
        XAConnection connection = connect(context, "");
        XASession first = connection.createXASession();
        XASession second = connection.createXASession();
        Queue queue = first.createQueue(context.name("q"));
        MessageConsumer observer = observer(context, queue);
        Branch branch = begin(context, first, queue, "1", "before");
        first.getXAResource().end(branch, XAResource.TMSUSPEND);
        Branch between = begin(context, first, queue, "2", "between");
        first.getXAResource().end(between, XAResource.TMSUCCESS);
        first.getXAResource().commit(between, true);
        Context.nextTexts(observer, "between");
        first.getXAResource().start(branch, XAResource.TMRESUME);
        send(first, queue, "after");
        first.getXAResource().end(branch, XAResource.TMSUCCESS);
        second.getXAResource().start(branch, XAResource.TMJOIN);
        send(second, queue, "joined");
        second.getXAResource().end(branch, XAResource.TMSUCCESS);
        Context.nothing(observer);
        first.getXAResource().prepare(branch);
        second.getXAResource().commit(branch, false);
        Context.nextTexts(observer, "before", "after", "joined");
    }

    private static void refused(Context context) throws Exception {
        XAConnection connection = connect(context, "");
        XASession session = connection.createXASession();
        XASession other = connection.createXASession();
        XAResource resource = session.getXAResource();
        Branch unknown = new Branch(context.name("tx"), "unknown");
        fails(XAException.XAER_NOTA, () -> resource.prepare(unknown), "prepare");
        fails(XAException.XAER_NOTA, () -> resource.commit(unknown, false), "commit");
        fails(XAException.XAER_NOTA, () -> resource.rollback(unknown), "rollback");
        fails(XAException.XAER_NOTA, () -> resource.forget(unknown), "forget");
        fails(XAException.XAER_NOTA, () -> resource.end(unknown, XAResource.TMSUCCESS), "end");
        fails(XAException.XAER_NOTA, () -> resource.start(unknown, XAResource.TMJOIN), "join");
        fails(XAException.XAER_NOTA, () -> resource.start(unknown, XAResource.TMRESUME), "resume");
        Branch branch = begin(context, session, session.createQueue(context.name("q")), "1");
        fails(XAException.XAER_DUPID, () -> other.getXAResource().start(branch, XAResource.TMNOFLAGS), "start of a known branch");
        Context.refused(TransactionInProgressException.class, session::commit, "commit of the session");
        Context.refused(TransactionInProgressException.class, session::rollback, "rollback of the session");
        resource.end(branch, XAResource.TMSUCCESS);
        resource.rollback(branch);
    }

    private static void simplified(Context context) throws Exception {
        String queue = context.name("q");
        Branch branch = new Branch(context.name("tx"), "1");
        try (XAJMSContext simple = context.xaFactory("").createXAContext(Context.USER, Context.PASSWORD)) {
            simple.getXAResource().start(branch, XAResource.TMNOFLAGS);
            simple.createProducer().send(simple.createQueue(queue), "from a context");
            simple.getXAResource().end(branch, XAResource.TMSUCCESS);
            simple.getXAResource().prepare(branch);
            simple.getXAResource().commit(branch, false);
        }
        Session plain = context.connect("").createSession();
        Context.nextTexts(plain.createConsumer(plain.createQueue(queue)), "from a context");
    }

    private static void outside(Context context) throws Exception {
        XASession session = connect(context, "").createXASession();
        Queue queue = session.createQueue(context.name("q"));
        send(session, queue, "m0", "m1");
        MessageConsumer consumer = session.createConsumer(queue);
        Context.nextTexts(consumer, "m0");
        session.close();
        MessageConsumer observer = observer(context, queue);
        Context.nextTexts(observer, "m1");
        Context.nothing(observer);
    }

    private static void timeout(Context context) throws Exception {
        XAConnection connection = connect(context, "");
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        XAResource probe = connection.createXASession().getXAResource();
        Queue queue = session.createQueue(context.name("q"));
        Context.require(resource.setTransactionTimeout(1), "the time limit can be set");
        Branch branch = begin(context, session, queue, "1", "too late");
        Context.eventually(() -> {
            try {
                probe.start(branch, XAResource.TMJOIN);
                probe.end(branch, XAResource.TMSUCCESS);
            } catch (XAException gone) {
                return true;
            }
            return false;
        }, "the branch is rolled back");
        Context.refused(XAException.class, () -> resource.end(branch, XAResource.TMSUCCESS), "end of a branch whose time is over");
        Context.refused(XAException.class, () -> resource.prepare(branch), "prepare of a branch whose time is over");
        Context.nothing(observer(context, queue));
    }

    private static void heuristicForget(Context context) throws Exception {
        XASession session = connect(context, "").createXASession();
        XAResource resource = session.getXAResource();
        Queue queue = session.createQueue(context.name("q"));
        Branch committed = begin(context, session, queue, "c", "committed");
        resource.end(committed, XAResource.TMSUCCESS);
        resource.prepare(committed);
        Branch rolledBack = begin(context, session, queue, "r", "rolled back");
        resource.end(rolledBack, XAResource.TMSUCCESS);
        resource.prepare(rolledBack);
        Object listed = manage(context, "listPreparedTransactions");
        Context.require(String.valueOf(Arrays.asList((Object[]) listed)).contains(committed.base64()), "the branch is listed");
        Context.equal(true, manage(context, "commitPreparedTransaction", committed.base64()), "committed by management");
        Context.equal(true, manage(context, "rollbackPreparedTransaction", rolledBack.base64()), "rolled back by management");
        MessageConsumer observer = observer(context, queue);
        Context.nextTexts(observer, "committed");
        Context.nothing(observer);
        Context.equal(Set.of("c", "r"), inDoubt(context, resource), "recovered until they are forgotten");
        fails(XAException.XA_HEURCOM, () -> resource.commit(committed, false), "commit");
        fails(XAException.XA_HEURRB, () -> resource.rollback(rolledBack), "rollback");
        resource.forget(committed);
        resource.forget(rolledBack);
        Context.equal(Set.of(), inDoubt(context, resource), "recovered after they are forgotten");
        fails(XAException.XAER_NOTA, () -> resource.commit(committed, false), "commit of what is forgotten");
    }

    private static Object manage(Context context, String operation, Object... arguments) throws Exception {
        Connection connection = context.connect("");
        QueueSession session = (QueueSession) connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        QueueRequestor requestor = new QueueRequestor(session, ActiveMQJMSClient.createQueue("activemq.management"));
        Message request = session.createMessage();
        JMSManagementHelper.putOperationInvocation(request, "broker", operation, arguments);
        Message reply = requestor.request(request);
        Context.require(JMSManagementHelper.hasOperationSucceeded(reply), operation + ": " + JMSManagementHelper.getResult(reply));
        Object result = JMSManagementHelper.getResult(reply);
        connection.close();
        return result;
    }

    private static void failureInsideABranch(Context context) throws Exception {
        XAConnection connection = started(context, context.xaProxied(AGAIN));
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        Queue queue = session.createQueue(context.name("q"));
        Branch lost = begin(context, session, queue, "1", "lost");
        ReconnectScenarios.cut(context, connection);
        fails(XAException.XAER_RMFAIL, () -> resource.end(lost, XAResource.TMSUCCESS), "end");
        try {
            resource.rollback(lost);
        } catch (XAException gone) {  // the broker has noticed the failure, and what was not prepared is or will be rolled back
            Context.require(Set.of(XAException.XAER_NOTA, XAException.XAER_PROTO).contains(gone.errorCode), "rollback: " + gone.errorCode);
        }
        Branch branch = begin(context, session, queue, "2", "second try");
        resource.end(branch, XAResource.TMSUCCESS);
        resource.prepare(branch);
        context.ask("cut");
        commitAtLast(resource, branch);
        MessageConsumer observer = observer(context, queue);
        Context.nextTexts(observer, "second try");
        Context.nothing(observer);
    }

    /** As transaction managers do it: a commit that was cut off is made again. */
    private static void commitAtLast(XAResource resource, Branch branch) throws Exception {
        Context.eventually(() -> {
            try {
                resource.commit(branch, false);
            } catch (XAException again) {
                if (again.errorCode == XAException.XA_RETRY) {
                    return false;
                }
                Context.equal(XAException.XAER_NOTA, again.errorCode, "of a commit that has succeeded before");
            }
            return true;
        }, "commit");
    }

    private static void reattachedInsideABranch(Context context) throws Exception {
        XASession session = started(context, context.xaProxied(AGAIN + "&confirmationWindowSize=1000000")).createXASession();
        XAResource resource = session.getXAResource();
        Queue queue = session.createQueue(context.name("q"));
        Branch branch = begin(context, session, queue, "1", "one");
        context.ask("cut");
        send(session, queue, "two");
        resource.end(branch, XAResource.TMSUCCESS);
        context.ask("cut");
        resource.prepare(branch);
        context.ask("cut");
        resource.commit(branch, false);
        MessageConsumer observer = observer(context, queue);
        Context.nextTexts(observer, "one", "two");
        Context.nothing(observer);
    }

    private static void recoverAfterClientCrash(Context context) throws Exception {
        XAConnection connection = started(context, context.xaProxied("callTimeout=10000"));
        XASession session = connection.createXASession();
        Queue queue = session.createQueue(context.name("q"));
        leaveInDoubt(context, session, queue);
        context.ask("cut");
        resolve(context, queue);
    }

    private static void recoverAfterKill(Context context) throws Exception {
        XASession session = connect(context, "").createXASession();
        Queue queue = session.createQueue(context.name("q"));
        Branch never = begin(context, session, queue, "n", "never");
        session.getXAResource().end(never, XAResource.TMSUCCESS);
        leaveInDoubt(context, session, queue);
        context.ask("kill");
        XAResource resource = connect(context, "").createXASession().getXAResource();
        fails(XAException.XAER_NOTA, () -> resource.prepare(never), "prepare of a branch that was only ended");
        resolve(context, queue);
    }

    /** Two prepared branches: one has sent, the other has received and sent. */
    private static void leaveInDoubt(Context context, XASession session, Queue queue) throws Exception {
        Session plain = context.connect("").createSession();
        Context.sendTexts(plain, plain.createProducer(queue), "received");
        Branch sending = begin(context, session, queue, "s", "sent");
        session.getXAResource().end(sending, XAResource.TMSUCCESS);
        session.getXAResource().prepare(sending);
        MessageConsumer consumer = session.createConsumer(queue);
        Branch receiving = begin(context, session, queue, "r", "answer");
        Context.nextTexts(consumer, "received");
        session.getXAResource().end(receiving, XAResource.TMSUCCESS);
        session.getXAResource().prepare(receiving);
    }

    private static void resolve(Context context, Queue queue) throws Exception {
        XAResource resource = connect(context, "").createXASession().getXAResource();
        MessageConsumer observer = observer(context, queue);
        Context.nothing(observer);
        Context.equal(Set.of("r", "s"), inDoubt(context, resource), "in doubt");
        resource.commit(new Branch(context.name("tx"), "s"), false);
        Context.nextTexts(observer, "sent");
        resource.rollback(new Branch(context.name("tx"), "r"));
        Context.equal("received", Context.nextText(observer), "what comes back");
        Context.nothing(observer);
        Context.equal(Set.of(), inDoubt(context, resource), "in doubt after all");
    }
}
