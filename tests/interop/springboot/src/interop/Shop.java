package interop;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.messaging.handler.annotation.SendTo;

/** Sends orders with a JmsTemplate, answers them in one listener, sees the answers in another, and ends. */
@SpringBootApplication
public class Shop {
    private static final int ORDERS = 5;
    private final CountDownLatch answered = new CountDownLatch(ORDERS);

    public static void main(String[] arguments) {
        System.exit(SpringApplication.exit(SpringApplication.run(Shop.class, arguments)));
    }

    @JmsListener(destination = "spring.orders")
    @SendTo("spring.confirmations")
    public String order(String text) {
        return "confirmed " + text;
    }

    @JmsListener(destination = "spring.confirmations")
    public void confirmation(String text) {
        System.out.println("received: " + text);
        answered.countDown();
    }

    @Bean
    CommandLineRunner customer(JmsTemplate jms) {
        return arguments -> {
            for (int i = 0; i < ORDERS; i++) {
                jms.convertAndSend("spring.orders", "order " + i);
            }
            if (!answered.await(20, TimeUnit.SECONDS)) {
                throw new IllegalStateException("confirmations are missing: " + answered.getCount());
            }
            jms.setReceiveTimeout(5000);
            jms.convertAndSend("spring.plain", "plain");
            System.out.println("received: " + jms.receiveAndConvert("spring.plain"));
        };
    }
}
