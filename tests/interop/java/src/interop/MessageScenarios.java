package interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageFormatException;
import javax.jms.MessageNotWriteableException;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;

/**
 * Every message type, property type and header. The two {@code exchange-} scenarios are the Java half of an exchange with another client:
 * they use the queues {@code interop.exchange.from-java} and {@code interop.exchange.to-java} and tell the harness what they sent and saw.
 */
final class MessageScenarios {
    private static final String[] STRINGS = {
        "", "a", "ABCDEFGH", "ABCDEFGHI", "naïve é", "€ uro", "😀", "x😀y🌍", "nul\0in", "中文字符串测试长度", "\u007f\u0080\u07ff\u0800\uffff",
    };

    private MessageScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("message-types", MessageScenarios::everyTypeComesBack);
        all.put("message-long-strings", MessageScenarios::longStrings);
        all.put("message-read-only", MessageScenarios::receivedMessageIsReadOnly);
        all.put("message-headers-set-by-send", MessageScenarios::headersSetBySend);
        all.put("exchange-send", MessageScenarios::exchangeSend);
        all.put("exchange-receive", MessageScenarios::exchangeReceive);
    }


    /** One message or more of each type, with every kind of value. */
    static List<Message> catalogue(Session session) throws JMSException {
        List<Message> messages = new ArrayList<>();
        messages.add(session.createMessage());
        messages.add(session.createTextMessage());
        for (String text : STRINGS) {
            messages.add(session.createTextMessage(text));
        }
        addBytes(session, messages);
        addMap(session, messages);
        addStream(session, messages);
        messages.add(session.createObjectMessage("a serialised string"));
        addProperties(session, messages);
        addHeaders(session, messages);
        return messages;
    }

    private static void addBytes(Session session, List<Message> messages) throws JMSException {
        BytesMessage empty = session.createBytesMessage();
        empty.writeBytes(new byte[0]);
        messages.add(empty);
        BytesMessage values = session.createBytesMessage();
        values.writeBoolean(true);
        values.writeBoolean(false);
        values.writeByte((byte) -2);
        values.writeShort((short) -3);
        values.writeChar('€');
        values.writeInt(-4);
        values.writeLong(-5);
        values.writeFloat(1.5f);
        values.writeDouble(-2.25);
        values.writeUTF("añb");
        values.writeBytes(new byte[] {0, 1, 2, (byte) 255}, 1, 3);
        messages.add(values);
    }

    private static void addMap(Session session, List<Message> messages) throws JMSException {
        messages.add(session.createMapMessage());
        MapMessage map = session.createMapMessage();
        map.setBoolean("yes", true);
        map.setBoolean("no", false);
        map.setByte("byte", (byte) 127);
        map.setShort("short", Short.MIN_VALUE);
        map.setChar("char", '中');
        map.setInt("int", Integer.MIN_VALUE);
        map.setLong("long", Long.MAX_VALUE);
        map.setFloat("float", Float.NaN);
        map.setDouble("double", Double.NEGATIVE_INFINITY);
        map.setString("string", "str 😀");
        map.setString("empty", "");
        map.setObject("null", null);
        map.setBytes("bytes", new byte[] {1, 2, 3, -1});
        map.setBytes("nobytes", new byte[0]);
        messages.add(map);
    }

    private static void addStream(Session session, List<Message> messages) throws JMSException {
        messages.add(session.createStreamMessage());
        StreamMessage stream = session.createStreamMessage();
        stream.writeBoolean(true);
        stream.writeByte((byte) 1);
        stream.writeShort((short) 2);
        stream.writeChar('Q');
        stream.writeInt(3);
        stream.writeLong(4);
        stream.writeFloat(5);
        stream.writeDouble(6);
        for (String text : STRINGS) {
            stream.writeString(text);
        }
        stream.writeString(null);
        stream.writeBytes(new byte[] {1, 2});
        messages.add(stream);
    }

    private static void addProperties(Session session, List<Message> messages) throws JMSException {
        TextMessage typed = session.createTextMessage("properties");
        typed.setBooleanProperty("yes", true);
        typed.setBooleanProperty("no", false);
        typed.setByteProperty("byte", Byte.MIN_VALUE);
        typed.setShortProperty("short", Short.MAX_VALUE);
        typed.setIntProperty("int", -1);
        typed.setLongProperty("long", Long.MIN_VALUE);
        typed.setFloatProperty("float", 3.25f);
        typed.setFloatProperty("nan", Float.NaN);
        typed.setDoubleProperty("double", -0.0);
        typed.setDoubleProperty("infinity", Double.POSITIVE_INFINITY);
        typed.setObjectProperty("null", null);
        for (int i = 0; i < STRINGS.length; i++) {
            typed.setStringProperty("string" + i, STRINGS[i]);
        }
        typed.setIntProperty("名é", 5);
        messages.add(typed);
    }

    private static void addHeaders(Session session, List<Message> messages) throws JMSException {
        TextMessage headers = session.createTextMessage("headers");
        headers.setJMSCorrelationID("corr €");
        headers.setJMSType("my type");
        headers.setJMSReplyTo(session.createQueue("interop.reply.queue"));
        headers.setStringProperty("JMSXGroupID", "g1");
        headers.setIntProperty("JMSXGroupSeq", 7);
        messages.add(headers);
        TextMessage reply = session.createTextMessage("reply to a topic");
        reply.setJMSReplyTo(session.createTopic("interop.reply.topic"));
        messages.add(reply);
        messages.add(session.createTextMessage("priority and time to live"));
    }

    /** The last message of the catalogue goes with unusual options, every other message with the defaults, alternately persistent. */
    private static List<Map<String, Object>> send(Session session, Queue queue) throws JMSException {
        List<Map<String, Object>> sent = new ArrayList<>();
        try (MessageProducer producer = session.createProducer(queue)) {
            List<Message> messages = catalogue(session);
            for (int i = 0; i < messages.size(); i++) {
                Message message = messages.get(i);
                boolean last = i == messages.size() - 1;
                int mode = i % 2 == 0 ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT;
                producer.send(message, mode, last ? 9 : 4, last ? 3_600_000 : 0);
                sent.add(Description.of(message));
            }
        }
        return sent;
    }

    private static List<Map<String, Object>> receive(MessageConsumer consumer, int count) throws JMSException {
        List<Map<String, Object>> received = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            received.add(Description.of(Context.next(consumer)));
        }
        Context.nothing(consumer);
        return received;
    }

    private static void everyTypeComesBack(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        List<Map<String, Object>> sent = send(session, queue);
        Map<String, Map<String, Object>> received = new LinkedHashMap<>();
        for (Map<String, Object> one : receive(session.createConsumer(queue), sent.size())) {
            received.put((String) one.get("message_id"), one);
        }
        for (Map<String, Object> one : sent) {
            Context.equal(one, received.get(one.get("message_id")), "message " + one.get("kind"));
        }
    }

    private static void exchangeSend(Context context) throws Exception {
        Session session = context.connect("").createSession();
        context.result("sent", send(session, session.createQueue("interop.exchange.from-java")));
    }

    private static void exchangeReceive(Context context) throws Exception {
        Session session = context.connect("").createSession();
        int count = Integer.parseInt(context.ask("count"));
        context.result("received", receive(session.createConsumer(session.createQueue("interop.exchange.to-java")), count));
    }

    private static void longStrings(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int length : new int[] {8, 9, 4094, 4095, 40_000}) {
            TextMessage message = session.createTextMessage("é".repeat(length));
            message.setStringProperty("p", "x".repeat(length));
            producer.send(message);
            TextMessage back = (TextMessage) Context.next(consumer);
            Context.require(back.getText().equals("é".repeat(length)), "text of " + length);
            Context.equal(length, back.getStringProperty("p").length(), "property of " + length);
        }
        StreamMessage stream = session.createStreamMessage();
        for (int length : new int[] {8, 9, 4094, 4095, 10_000}) {
            stream.writeString("中".repeat(length));
        }
        producer.send(stream);
        StreamMessage back = (StreamMessage) Context.next(consumer);
        for (int length : new int[] {8, 9, 4094, 4095, 10_000}) {
            Context.require(back.readString().equals("中".repeat(length)), "stream string of " + length);
        }
    }

    private static void receivedMessageIsReadOnly(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        TextMessage message = session.createTextMessage("12");
        message.setStringProperty("number", "12");
        producer.send(message);
        MessageConsumer consumer = session.createConsumer(queue);
        TextMessage back = (TextMessage) Context.next(consumer);
        Context.refused(MessageNotWriteableException.class, () -> back.setText("other"), "writing a received text");
        Context.equal(12, back.getIntProperty("number"), "a string property read as int");
        back.clearBody();
        back.clearProperties();
        back.setText("sent again");
        producer.send(back);
        Context.equal("sent again", Context.nextText(consumer), "the same object sent again");
        MapMessage map = session.createMapMessage();
        map.setInt("i", 1);
        producer.send(map);
        MapMessage read = (MapMessage) Context.next(consumer);
        Context.refused(MessageFormatException.class, () -> read.getBytes("i"), "an int read as bytes");
    }

    private static void headersSetBySend(Context context) throws Exception {
        Session session = context.connect("").createSession();
        Queue queue = session.createQueue(context.name("q"));
        MessageProducer producer = session.createProducer(queue);
        long before = System.currentTimeMillis();
        producer.setTimeToLive(60_000);
        producer.send(session.createTextMessage("one"));
        producer.setDisableMessageID(true);
        producer.setDisableMessageTimestamp(true);
        producer.setTimeToLive(0);
        producer.send(session.createTextMessage("two"));
        MessageConsumer consumer = session.createConsumer(queue);
        Message one = Context.next(consumer);
        Context.require(one.getJMSMessageID().startsWith("ID:"), "message id");
        Context.require(one.getJMSTimestamp() >= before, "timestamp");
        Context.equal(one.getJMSTimestamp() + 60_000, one.getJMSExpiration(), "expiration");
        Context.equal(queue, one.getJMSDestination(), "destination");
        Context.equal(1, Context.deliveryCount(one), "delivery count");
        Message two = Context.next(consumer);
        Context.equal(null, two.getJMSMessageID(), "disabled message id");
        Context.equal(0L, two.getJMSTimestamp(), "disabled timestamp");
        Context.equal(0L, two.getJMSExpiration(), "no expiration");
    }
}
