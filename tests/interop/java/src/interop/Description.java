package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageEOFException;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.StreamMessage;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;

/**
 * A message as maps and lists, in the form of the recorded conversations: a value is {@code {"type", "value"}}; floating-point values are
 * their bits in hexadecimal, bytes are {@code {"hex"}}.
 */
final class Description {
    private Description() {
    }

    static Map<String, Object> of(Message message) throws JMSException {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("kind", kind(message));
        all.put("body", body(message));
        all.put("properties", properties(message));
        all.put("durable", message.getJMSDeliveryMode() == DeliveryMode.PERSISTENT);
        all.put("priority", message.getJMSPriority());
        all.put("expires", message.getJMSExpiration() != 0);
        all.put("correlation_id", message.getJMSCorrelationID());
        all.put("type", message.getJMSType());
        all.put("reply_to", destination(message.getJMSReplyTo()));
        all.put("destination", destination(message.getJMSDestination()));
        all.put("message_id", message.getJMSMessageID());
        all.put("timestamp", message.getJMSTimestamp());
        all.put("redelivered", message.getJMSRedelivered());
        return all;
    }

    static String kind(Message message) {
        if (message instanceof TextMessage) {
            return "text";
        } else if (message instanceof BytesMessage) {
            return "bytes";
        } else if (message instanceof MapMessage) {
            return "map";
        } else if (message instanceof StreamMessage) {
            return "stream";
        } else if (message instanceof ObjectMessage) {
            return "object";
        }
        return "message";
    }

    private static Object body(Message message) throws JMSException {
        if (message instanceof TextMessage text) {
            return text.getText();
        } else if (message instanceof BytesMessage bytes) {
            bytes.reset();
            byte[] all = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(all);
            return Map.of("hex", hex(all));
        } else if (message instanceof MapMessage map) {
            Map<String, Object> values = new TreeMap<>();
            for (Object name : Collections.list((Enumeration<?>) map.getMapNames())) {
                values.put((String) name, value(map.getObject((String) name)));
            }
            return values;
        } else if (message instanceof StreamMessage stream) {
            stream.reset();
            return items(stream);
        } else if (message instanceof ObjectMessage object) {
            return String.valueOf(object.getObject());
        }
        return null;
    }

    private static List<Object> items(StreamMessage stream) throws JMSException {
        List<Object> items = new ArrayList<>();
        while (true) {
            try {
                items.add(value(stream.readObject()));
            } catch (MessageEOFException end) {
                return items;
            }
        }
    }

    private static Map<String, Object> properties(Message message) throws JMSException {
        Map<String, Object> values = new TreeMap<>();
        for (Object name : Collections.list((Enumeration<?>) message.getPropertyNames())) {
            if (!name.equals("JMSXDeliveryCount")) {
                values.put((String) name, value(message.getObjectProperty((String) name)));
            }
        }
        return values;
    }

    static Map<String, Object> value(Object value) {
        Map<String, Object> both = new LinkedHashMap<>();
        both.put("type", value == null ? "NULL" : typeName(value));
        if (value instanceof Float number) {
            both.put("value", String.format("%08x", Float.floatToIntBits(number)));
        } else if (value instanceof Double number) {
            both.put("value", String.format("%016x", Double.doubleToLongBits(number)));
        } else if (value instanceof byte[] bytes) {
            both.put("value", Map.of("hex", hex(bytes)));
        } else {
            both.put("value", value);
        }
        return both;
    }

    private static String typeName(Object value) {
        if (value instanceof Integer) {
            return "INT";
        } else if (value instanceof Character) {
            return "CHAR";
        } else if (value instanceof byte[]) {
            return "BYTES";
        }
        return value.getClass().getSimpleName().toUpperCase(java.util.Locale.ROOT);
    }

    static String destination(Destination destination) throws JMSException {
        if (destination == null) {
            return null;
        } else if (destination instanceof TemporaryQueue queue) {
            return "temp-queue://" + queue.getQueueName();
        } else if (destination instanceof Queue queue) {
            return "queue://" + queue.getQueueName();
        }
        return "topic://" + ((Topic) destination).getTopicName();
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }
}
