package interop;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.jms.Connection;
import javax.jms.InvalidDestinationException;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import javax.jms.Topic;

/** Topics: plain, durable, shared and shared durable subscriptions, noLocal, selectors, wildcards. */
final class TopicScenarios {
    private TopicScenarios() {
    }

    static void addTo(Map<String, Scenario> all) {
        all.put("topic-plain", TopicScenarios::plain);
        all.put("topic-selector-nolocal", TopicScenarios::selectorAndNoLocal);
        all.put("topic-durable", TopicScenarios::durable);
        all.put("topic-durable-changed", TopicScenarios::durableChanged);
        all.put("topic-shared", TopicScenarios::shared);
        all.put("topic-shared-durable", TopicScenarios::sharedDurable);
        all.put("topic-wildcard", TopicScenarios::wildcard);
        all.put("topic-temporary", TopicScenarios::temporary);
    }

    private static void plain(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession();
        Topic topic = session.createTopic(context.name("t"));
        MessageProducer producer = session.createProducer(topic);
        Context.sendTexts(session, producer, "before anybody listens");
        MessageConsumer first = session.createConsumer(topic);
        MessageConsumer second = context.connect("").createSession().createConsumer(topic);
        Context.sendTexts(session, producer, "one", "two");
        for (MessageConsumer consumer : List.of(first, second)) {
            Context.nextTexts(consumer, "one", "two");
            Context.nothing(consumer);
        }
        second.close();
        Context.sendTexts(session, producer, "three");
        Context.nextTexts(first, "three");
    }

    private static void selectorAndNoLocal(Context context) throws Exception {
        Connection connection = context.connect("");
        Session session = connection.createSession();
        Topic topic = session.createTopic(context.name("t"));
        MessageConsumer foreignOnly = session.createConsumer(topic, "n > 1", true);
        MessageConsumer selected = session.createConsumer(topic, "n > 1");
        Session foreign = context.connect("").createSession();
        for (Session from : List.of(session, foreign)) {
            MessageProducer producer = from.createProducer(topic);
            for (int n = 1; n <= 2; n++) {
                TextMessage message = from.createTextMessage((from == session ? "own " : "foreign ") + n);
                message.setIntProperty("n", n);
                producer.send(message);
            }
        }
        Context.nextTexts(foreignOnly, "foreign 2");
        Context.nothing(foreignOnly);
        Context.nextTexts(selected, "own 2", "foreign 2");
        Context.nothing(selected);
    }

    private static void durable(Context context) throws Exception {
        String client = context.name("client");
        Connection connection = context.connectAs(client, "");
        Session session = connection.createSession();
        Topic topic = session.createTopic(context.name("t"));
        MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub.x");
        MessageProducer producer = session.createProducer(topic);
        Context.sendTexts(session, producer, "one");
        Context.nextTexts(subscriber, "one");
        Context.refused(JMSException.class, () -> session.createDurableConsumer(topic, "sub.x"), "a subscription in use");
        connection.close();
        Session sender = context.connect("").createSession();
        Context.sendTexts(sender, sender.createProducer(topic), "two", "three");
        Connection again = context.connectAs(client, "");
        Session resumed = again.createSession();
        MessageConsumer back = resumed.createDurableConsumer(topic, "sub.x");
        Context.nextTexts(back, "two", "three");
        Context.refused(JMSException.class, () -> resumed.unsubscribe("sub.x"), "unsubscribing while in use");
        back.close();
        resumed.unsubscribe("sub.x");
        Context.refused(InvalidDestinationException.class, () -> resumed.unsubscribe("sub.x"), "unsubscribing twice");
        Context.sendTexts(sender, sender.createProducer(topic), "lost");
        Context.nothing(resumed.createDurableConsumer(topic, "sub.x"));
    }

    private static void durableChanged(Context context) throws Exception {
        Session session = context.connectAs(context.name("client"), "").createSession();
        Topic topic = session.createTopic(context.name("t"));
        session.createDurableSubscriber(topic, "s").close();
        MessageProducer producer = session.createProducer(topic);
        Context.sendTexts(session, producer, "goes with the old selector");
        MessageConsumer changed = session.createDurableSubscriber(topic, "s", "n = 1", false);
        TextMessage message = session.createTextMessage("selected");
        message.setIntProperty("n", 1);
        producer.send(message);
        Context.sendTexts(session, producer, "not selected");
        Context.nextTexts(changed, "selected");
        Context.nothing(changed);
    }

    private static void shared(Context context) throws Exception {
        Session first = context.connect("").createSession();
        Session second = context.connect("").createSession();
        Topic topic = first.createTopic(context.name("t"));
        MessageConsumer one = first.createSharedConsumer(topic, context.name("s"));
        MessageConsumer two = second.createSharedConsumer(topic, context.name("s"));
        MessageConsumer other = second.createSharedConsumer(topic, context.name("other"));
        MessageProducer producer = first.createProducer(topic);
        for (int i = 0; i < 10; i++) {
            producer.send(first.createTextMessage("m" + i));
        }
        shareOf(one, two);
        for (int i = 0; i < 10; i++) {
            Context.equal("m" + i, Context.nextText(other), "the other subscription has all");
        }
        one.close();
        two.close();
        Context.sendTexts(first, producer, "nobody is there");
        Context.nothing(first.createSharedConsumer(topic, context.name("s")));
    }

    private static void sharedDurable(Context context) throws Exception {
        Session first = context.connect("").createSession();
        Session second = context.connect("").createSession();
        Topic topic = first.createTopic(context.name("t"));
        MessageConsumer one = first.createSharedDurableConsumer(topic, context.name("s"));
        MessageConsumer two = second.createSharedDurableConsumer(topic, context.name("s"));
        MessageProducer producer = first.createProducer(topic);
        for (int i = 0; i < 10; i++) {
            producer.send(first.createTextMessage("m" + i));
        }
        shareOf(one, two);
        one.close();
        two.close();
        Context.sendTexts(first, producer, "kept");
        MessageConsumer back = second.createSharedDurableConsumer(topic, context.name("s"));
        Context.nextTexts(back, "kept");
        back.close();
        second.unsubscribe(context.name("s"));
    }

    private static void shareOf(MessageConsumer one, MessageConsumer two) throws JMSException {
        Set<String> seen = new HashSet<>();
        for (MessageConsumer consumer : List.of(one, two)) {
            for (int i = 0; i < 5; i++) {
                seen.add(Context.nextText(consumer));
            }
            Context.nothing(consumer);
        }
        Context.equal(10, seen.size(), "each message once");
    }

    private static void wildcard(Context context) throws Exception {
        Session session = context.connect("").createSession();
        MessageConsumer words = session.createConsumer(session.createTopic(context.name("news") + ".#"));
        MessageConsumer word = session.createConsumer(session.createTopic(context.name("news") + ".*.uk"));
        for (String part : new String[] {"sport.uk", "sport.fr", "europe.sport.uk"}) {
            Context.sendTexts(session, session.createProducer(session.createTopic(context.name("news") + "." + part)), part);
        }
        Context.nextTexts(words, "sport.uk", "sport.fr", "europe.sport.uk");
        Context.nextTexts(word, "sport.uk");
        Context.nothing(word);
    }

    private static void temporary(Context context) throws Exception {
        Session session = context.connect("").createSession();
        TemporaryTopic topic = session.createTemporaryTopic();
        MessageConsumer consumer = session.createConsumer(topic);
        Context.sendTexts(session, session.createProducer(topic), "one");
        Context.nextTexts(consumer, "one");
        consumer.close();
        topic.delete();
    }
}
