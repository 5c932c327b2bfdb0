"""One message of every kind with the Python client, and any message in the words of the Java driver (`Description.java`)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from mqclient import jms

STRINGS = (
    "",
    "a",
    "ABCDEFGH",
    "ABCDEFGHI",
    "naïve é",
    "€ uro",
    "😀",
    "x😀y🌍",
    "nul\0in",
    "中文字符串测试长度",
    "\x7f\x80\u07ff\u0800\uffff",
)
JAVA_STRING_PREFIX = bytes.fromhex("aced000574")  # a Java serialisation stream that holds one short string

Description = dict[str, Any]


def java_string(text: str) -> jms.JavaSerialized:
    """A string as Java serialises it (ASCII only)."""
    data = text.encode("ascii")
    return jms.JavaSerialized(JAVA_STRING_PREFIX + struct.pack(">H", len(data)) + data)


def catalogue(session: jms.Session) -> list[jms.Message]:
    """What `MessageScenarios.catalogue` makes in Java, made here: every type, every kind of value, headers."""
    messages: list[jms.Message] = [session.create_message(), session.create_text_message()]
    messages += [session.create_text_message(text) for text in STRINGS]
    written = session.create_bytes_message()
    written.write_boolean(True)
    written.write_byte(-2)
    written.write_char("€")
    written.write_double(-2.25)
    written.write_utf("añb")
    messages += [session.create_bytes_message(b""), session.create_bytes_message(bytes(range(256))), written]
    values: dict[str, object] = {
        "yes": True,
        "no": False,
        "byte": jms.Byte(127),
        "short": jms.Short(-32768),
        "char": jms.Char("中"),
        "int": -(2**31),
        "long": 2**63 - 1,
        "small long": jms.Long(9),
        "float": jms.Float(float("nan")),
        "double": float("-inf"),
        "string": "str 😀",
        "empty": "",
        "null": None,
        "bytes": b"\1\2\3\xff",
        "nobytes": b"",
    }
    messages += [session.create_map_message(), session.create_map_message(values)]
    messages += [session.create_stream_message(), session.create_stream_message([*values.values(), *STRINGS])]
    messages.append(session.create_object_message(java_string("a serialised string")))
    messages += with_properties_and_headers(session)
    return messages


def with_properties_and_headers(session: jms.Session) -> list[jms.Message]:
    typed = session.create_text_message("properties")
    typed.properties.update(
        {"yes": True, "no": False, "byte": jms.Byte(-128), "short": jms.Short(32767), "int": -1, "long": -(2**63), "名é": 5, "null": None},
    )
    typed.properties.update({"float": jms.Float(3.25), "nan": jms.Float(float("nan")), "double": -0.0, "infinity": float("inf")})
    typed.properties.update({f"string{index}": text for index, text in enumerate(STRINGS)})
    headers = session.create_text_message("headers")
    headers.correlation_id = "corr €"
    headers.type = "my type"
    headers.reply_to = session.create_queue("interop.reply.queue")
    headers.group_id = "g1"
    headers.group_sequence = 7
    reply = session.create_text_message("reply to a topic")
    reply.reply_to = session.create_topic("interop.reply.topic")
    return [typed, headers, reply, session.create_text_message("priority and time to live")]


def send_all(session: jms.Session, producer: jms.MessageProducer) -> list[Description]:
    """Send the catalogue, alternately persistent, the last one with other options; descriptions of what was sent."""
    sent = []
    messages = catalogue(session)
    for index, message in enumerate(messages):
        mode = jms.DeliveryMode.PERSISTENT if index % 2 == 0 else jms.DeliveryMode.NON_PERSISTENT
        last = message is messages[-1]
        producer.send(message, delivery_mode=mode, priority=9 if last else None, time_to_live=3_600_000 if last else None)
        sent.append(describe(message))
    return sent


def describe(message: jms.Message) -> Description:
    return {
        "kind": kind(message),
        "body": body(message),
        "properties": {name: value(message.properties[name]) for name in sorted(message.properties)},
        "durable": message.delivery_mode == jms.DeliveryMode.PERSISTENT,
        "priority": message.priority,
        "expires": message.expiration != 0,
        "correlation_id": message.correlation_id,
        "type": message.type,
        "reply_to": destination(message.reply_to),
        "destination": destination(message.destination),
        "message_id": message.message_id,
        "timestamp": message.timestamp,
        "redelivered": message.redelivered,
    }


def kind(message: jms.Message) -> str:
    name = type(message).__name__
    return "message" if name == "Message" else name.removesuffix("Message").lower()


def body(message: jms.Message) -> object:
    content = message.body
    if isinstance(message, jms.BytesMessage):
        return {"hex": bytes(message).hex()}
    if isinstance(content, jms.JavaSerialized):
        return content[len(JAVA_STRING_PREFIX) + 2 :].decode("ascii")
    if isinstance(content, Mapping):
        return {name: value(content[name]) for name in sorted(content)}
    if isinstance(content, list):
        return [value(item) for item in content]
    return content


def value(item: object) -> dict[str, object]:
    """`item` with the name of its Java type; floating-point values as their bits."""
    kinds: list[tuple[type, str]] = [
        *((bool, "BOOLEAN"), (jms.Byte, "BYTE"), (jms.Short, "SHORT"), (jms.Long, "LONG"), (int, "INT"), (jms.Float, "FLOAT")),
        *((float, "DOUBLE"), (jms.Char, "CHAR"), (str, "STRING"), (bytes, "BYTES"), (type(None), "NULL")),
    ]
    name = next(name for base, name in kinds if isinstance(item, base))
    shown: object = item
    if isinstance(item, float):
        shown = struct.pack(">f" if name == "FLOAT" else ">d", item).hex()
    elif isinstance(item, bytes):
        shown = {"hex": item.hex()}
    elif name == "INT" and isinstance(item, int) and not -(2**31) <= item < 2**31:
        name = "LONG"
    return {"type": name, "value": shown}


def destination(found: jms.Destination | None) -> str | None:
    if found is None:
        return None
    scheme = "temp-queue" if isinstance(found, jms.TemporaryQueue) else "queue" if isinstance(found, jms.Queue) else "topic"
    return f"{scheme}://{found.name}"
