package bench;

import javax.jms.ConnectionFactory;
import javax.jms.JMSException;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** Connection factories of Artemis, and of Open Message Queue where a URL begins with mq: (its library is not there when this is compiled). */
final class Factories {
    private static final String OPEN_MQ = "com.sun.messaging.ConnectionFactory";

    private Factories() {
    }

    /** The parameters are those of Artemis. */
    static ConnectionFactory of(String url, String parameters) throws JMSException {
        if (!url.startsWith("mq:")) {
            return new ActiveMQConnectionFactory(url + (parameters.isEmpty() ? "" : (url.contains("?") ? "&" : "?") + parameters));
        }
        try {
            Object factory = Class.forName(OPEN_MQ).getDeclaredConstructor().newInstance();
            factory.getClass().getMethod("setProperty", String.class, String.class).invoke(factory, "imqAddressList", url);
            return (ConnectionFactory) factory;
        } catch (ReflectiveOperationException missing) {
            throw new IllegalStateException("the client library of Open Message Queue is not there", missing);
        }
    }
}
