import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSRuntimeException;
import jakarta.jms.Queue;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** Every order is stored once: a send whose outcome is unknown is repeated with the same duplicate id. */
public class DuplicateIds {
    public static void main(String[] arguments) throws Exception {
        // For a pair of brokers: "(tcp://a:61616,tcp://b:61616)?ha=true"
        String url = arguments.length > 0 ? arguments[0] : "tcp://127.0.0.1:61616";
        int count = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 100;
        try (ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url)) {
            factory.setReconnectAttempts(-1);
            factory.setRetryInterval(200);
            try (JMSContext context = factory.createContext("admin", "secret")) {
                Queue queue = context.createQueue("example.java.once");
                for (int number = 0; number < count; number++) {
                    TextMessage message = context.createTextMessage("order " + number);
                    message.setStringProperty("_AMQ_DUPL_ID", UUID.randomUUID().toString()); // of this order, whatever happens
                    insist(context, queue, message);
                    if (number == count / 2) {
                        System.out.println("half of the orders are sent");
                    }
                }
                List<String> orders = new ArrayList<>();
                JMSConsumer consumer = context.createConsumer(queue);
                String order = consumer.receiveBody(String.class, 5000);
                while (order != null) {
                    orders.add(order);
                    order = consumer.receiveBody(String.class, 2000);
                }
                List<String> expected = IntStream.range(0, count).mapToObj(number -> "order " + number).toList();
                System.out.println("each order came once: " + orders.equals(expected));
            }
        }
    }

    private static void insist(JMSContext context, Queue queue, TextMessage message) {
        while (true) {
            try {
                context.createProducer().send(queue, message);
                return;
            } catch (JMSRuntimeException error) {
                // The connection was lost before the answer came, and is there again.
                System.err.println("sending again: " + error.getMessage());
            }
        }
    }
}
