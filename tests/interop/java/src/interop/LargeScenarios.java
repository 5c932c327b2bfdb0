package interop;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;

/** Large messages: bytes, text and streams, around and at multiples of the chunk size, compressed, in transactions. */
final class LargeScenarios {
    private static final String SMALL_CHUNKS = "minLargeMessageSize=2048";

    private LargeScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("large-sizes", context -> sizes(context, SMALL_CHUNKS));
        all.put("large-default-threshold", LargeScenarios::defaultThreshold);
        all.put("large-compressed", context -> sizes(context, SMALL_CHUNKS + "&compressLargeMessage=true"));
        all.put("large-compressed-regular", LargeScenarios::compressedToRegular);
        all.put("large-confirmation-window", context -> sizes(context, SMALL_CHUNKS + "&confirmationWindowSize=10000"));
        all.put("large-small-consumer-window", context -> sizes(context, SMALL_CHUNKS + "&consumerWindowSize=3000"));
        all.put("large-consumer-window-0", context -> sizes(context, SMALL_CHUNKS + "&consumerWindowSize=0"));
        all.put("large-nonblocking", context -> sizes(context, SMALL_CHUNKS + "&blockOnDurableSend=false"));
        all.put("large-text", LargeScenarios::text);
        all.put("large-stream", LargeScenarios::stream);
        all.put("large-tx", LargeScenarios::transacted);
        all.put("large-browse-and-redeliver", LargeScenarios::browseAndRedeliver);
        all.put("large-between-regular", LargeScenarios::betweenRegular);
        all.put("large-dead-letter", LargeScenarios::deadLetter);
    }

    private static byte[] body(int size) {
        byte[] bytes = new byte[size];
        new Random(size).nextBytes(bytes);
        return bytes;
    }

    private static void send(Session session, MessageProducer producer, byte[] body) throws JMSException {
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(body);
        message.setIntProperty("size", body.length);
        producer.send(message);
    }

    private static void expect(Message received, byte[] body) throws JMSException {
        BytesMessage message = (BytesMessage) received;
        Context.equal(body.length, message.getIntProperty("size"), "size property");
        Context.equal((long) body.length, message.getBodyLength(), "body length");
        byte[] bytes = new byte[body.length];
        if (body.length > 0) {
            Context.equal(body.length, message.readBytes(bytes), "bytes read");
        }
        Context.require(Arrays.equals(body, bytes), "content of " + body.length + " bytes");
    }

    private static void sizes(Context context, String parameters) throws Exception {
        Session session = context.connect(parameters).createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        int[] sizes = {2043, 2044, 2045, 2048, 4095, 4096, 4097, 10_240, 50_000};
        for (int size : sizes) {
            send(session, producer, body(size));
        }
        for (int size : sizes) {
            expect(Context.next(consumer), body(size));
        }
        Context.nothing(consumer);
    }

    private static void defaultThreshold(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        int[] sizes = {102_396, 102_397, 204_800, 1_500_000};
        for (int size : sizes) {
            send(session, producer, body(size));
        }
        MessageConsumer consumer = session.createConsumer(queue);
        for (int size : sizes) {
            expect(Context.next(consumer), body(size));
        }
    }

    private static void compressedToRegular(Context context) throws Exception {
        Session session = context.connect("compressLargeMessage=true&" + SMALL_CHUNKS).createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        send(session, producer, new byte[20_000]);
        Context.sendTexts(session, producer, "ab".repeat(10_000));
        MessageConsumer consumer = context.connect("").createSession().createConsumer(queue);
        expect(Context.next(consumer), new byte[20_000]);
        Context.nextTexts(consumer, "ab".repeat(10_000));
    }

    private static void text(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        String text = "Größe 😀 ".repeat(30_000);
        Context.sendTexts(session, session.createProducer(queue), text);
        Context.require(text.equals(Context.nextText(session.createConsumer(queue))), "text of " + text.length());
    }

    private static void stream(Context context) throws Exception {
        Session session = context.connect(SMALL_CHUNKS).createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int size : new int[] {5000, 100, 4096, 0}) {
            BytesMessage message = session.createBytesMessage();
            InputStream input = new ByteArrayInputStream(body(size));
            message.setObjectProperty("JMS_AMQ_InputStream", input);
            producer.send(message);
            BytesMessage received = (BytesMessage) Context.next(consumer);
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            received.setObjectProperty("JMS_AMQ_SaveStream", output);
            Context.require(Arrays.equals(body(size), output.toByteArray()), "stream of " + size);
        }
    }

    private static void transacted(Context context) throws Exception {
        Connection connection = context.connect(SMALL_CHUNKS);
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        send(session, producer, body(9000));
        session.rollback();
        send(session, producer, body(8000));
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        expect(Context.next(consumer), body(8000));
        session.rollback();
        Message again = Context.next(consumer);
        Context.equal(2, Context.deliveryCount(again), "delivery count");
        expect(again, body(8000));
        session.commit();
        Context.nothing(consumer);
    }

    private static void browseAndRedeliver(Context context) throws Exception {
        Session session = context.connect(SMALL_CHUNKS).createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        send(session, producer, body(9000));
        var browsed = session.createBrowser(queue).getEnumeration();
        expect((Message) browsed.nextElement(), body(9000));
        MessageConsumer consumer = session.createConsumer(queue);
        Context.next(consumer);
        session.recover();
        Message again = Context.next(consumer);
        expect(again, body(9000));
        again.acknowledge();
        Context.nothing(consumer);
    }

    private static void betweenRegular(Context context) throws Exception {
        Session session = context.connect(SMALL_CHUNKS + "&producerWindowSize=3000").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int i = 0; i < 5; i++) {
            Context.sendTexts(session, producer, "before " + i);
            send(session, producer, body(10_000 + i));
        }
        for (int i = 0; i < 5; i++) {
            Context.nextTexts(consumer, "before " + i);
            expect(Context.next(consumer), body(10_000 + i));
        }
    }

    private static void deadLetter(Context context) throws Exception {
        Connection connection = context.connect(SMALL_CHUNKS);
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue("interop.dead.large");
        send(session, session.createProducer(queue), body(12_000));
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        for (int attempt = 1; attempt <= 2; attempt++) {
            Message message = Context.next(consumer);
            Context.equal(attempt, Context.deliveryCount(message), "delivery count");
            session.rollback();
        }
        Session other = connection.createSession();
        String selector = "_AMQ_ORIG_ADDRESS = 'interop.dead.large'";
        Message copy = Context.next(other.createConsumer(other.createQueue("DLQ"), selector));
        expect(copy, body(12_000));
    }
}
