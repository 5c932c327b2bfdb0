import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSProducer;
import jakarta.jms.JMSRuntimeException;
import jakarta.jms.Queue;
import java.util.HashSet;
import java.util.Set;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** A client that connects again by itself: it hears of every failure, and goes on with what is not done yet. */
public class ApplicationFailover {
    public static void main(String[] arguments) throws Exception {
        // Several brokers can be named: "(tcp://a:61616,tcp://b:61616)"
        String url = arguments.length > 0 ? arguments[0] : "tcp://127.0.0.1:61616";
        int count = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 100;
        int sent = 0;
        int connections = 0;
        Set<String> seen = new HashSet<>();
        try (ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url)) {
            factory.setReconnectAttempts(0);
            factory.setCallTimeout(5000); // ms: a broker that takes longer for an answer is left
            // Everything is made anew after a failure: context, producer and consumer.
            while (seen.size() < count) {
                try (JMSContext context = factory.createContext("admin", "secret")) {
                    connections++;
                    Queue queue = context.createQueue("example.java.failover");
                    JMSProducer producer = context.createProducer();
                    while (sent < count) {
                        producer.send(queue, "order " + sent); // when this fails the order may be stored or not, and is sent again
                        sent++;
                        if (sent == count / 2) {
                            System.out.println("half of the orders are sent");
                        }
                    }
                    JMSConsumer consumer = context.createConsumer(queue);
                    while (seen.size() < count) {
                        String order = consumer.receiveBody(String.class, 5000);
                        if (order == null) {
                            break; // the consumer was closed by a failure
                        }
                        seen.add(order); // a set: an order that was sent again may come twice
                    }
                } catch (JMSRuntimeException error) {
                    System.err.println("connecting again: " + error.getMessage());
                    Thread.sleep(200);
                }
            }
        }
        System.out.println("all orders came: " + (seen.size() == sent));
        System.out.println("connections: " + connections);
    }
}
