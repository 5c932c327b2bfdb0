"""The parameters that an acceptor or a connector URL may carry."""

from __future__ import annotations

import re

from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.model import Item, honoured, quiet, refused, warned

NETTY = "the event loop of this broker has no such setting"
NO_UPGRADE = "HTTP is spoken from the beginning to the end of a connection, or not at all"
NO_SERVLET = "there are no servlets"
BY_CONTENT = "what a file is shows from its content"
CLIENT_ONLY = "only a client uses it"
ACCEPTOR_ONLY = "only an acceptor uses it"
BY_BEGINNING = "every acceptor takes connections that begin with HTTP"

PROTOCOLS = ("CORE", "AMQP", "STOMP", "HORNETQ", "MQTT", "OPENWIRE")

TLS: tuple[Item, ...] = (
    honoured("sslEnabled", kinds.BOOLEAN, "Use TLS."),
    honoured("keyStorePath", kinds.TEXT, "File with key and certificates of this side."),
    honoured("keyStorePassword", kinds.TEXT, "Its password; may be ENC(…)."),
    quiet("keyStoreType", kinds.choice("JKS", "PKCS12", "PEM", "PEMCFG"), "Its form; PEM, PKCS12 and JKS can be read.", BY_CONTENT),
    honoured("trustStorePath", kinds.TEXT, "File with the certificates that are trusted."),
    honoured("trustStorePassword", kinds.TEXT, "Its password; may be ENC(…)."),
    quiet("trustStoreType", kinds.choice("JKS", "PKCS12", "PEM", "PEMCA"), "Its form; PEM, PKCS12 and JKS can be read.", BY_CONTENT),
    honoured("verifyHost", kinds.BOOLEAN, "Check that the certificate of the other side names its host."),
    honoured("enabledProtocols", kinds.TEXT, "TLS versions, with commas between."),
    honoured("enabledCipherSuites", kinds.TEXT, "Cipher suites, with commas between."),
    quiet("keyStoreProvider", kinds.TEXT, "A Java provider.", "keys are read by OpenSSL"),
    quiet("trustStoreProvider", kinds.TEXT, "A Java provider.", "keys are read by OpenSSL"),
    warned("keyStoreAlias", kinds.TEXT, "Which key of the file.", "the first key of the file is used", ("",)),
    refused("crlPath", kinds.TEXT, "Certificates that are no longer valid.", "revoked certificates would be accepted", ("",)),
    refused("trustManagerFactoryPlugin", kinds.TEXT, "A Java class.", "Java classes cannot be loaded", ("",)),
    quiet("sslProvider", kinds.TEXT, "A Java TLS implementation.", "OpenSSL is used"),
    quiet("sslContext", kinds.TEXT, "Name of a shared Java TLS context.", "OpenSSL is used"),
)

SOCKETS: tuple[Item, ...] = (
    honoured("tcpNoDelay", kinds.BOOLEAN, "Send small packets at once."),
    honoured("tcpSendBufferSize", kinds.integer(-1, kinds.INT_MAX), "Size of the socket's send buffer, bytes; -1 as the system has it."),
    honoured("tcpReceiveBufferSize", kinds.integer(-1, kinds.INT_MAX), "Size of the receive buffer."),
    honoured("handshake-timeout", kinds.LONG, "How long a new connection may stay silent, s; 0 or less: forever."),
    quiet("writeBufferLowWaterMark", kinds.INT, "Back-pressure mark, bytes.", NETTY),
    quiet("writeBufferHighWaterMark", kinds.INT, "Back-pressure mark, bytes.", NETTY),
    quiet("remotingThreads", kinds.INT, "Network threads.", NETTY),
    quiet("nioRemotingThreads", kinds.INT, "Old name of remotingThreads.", NETTY, instead="remotingThreads"),
    quiet("batchDelay", kinds.LONG, "Gather packets for that long, ms.", NETTY),
    quiet("directDeliver", kinds.BOOLEAN, "Deliver on the receiving thread.", NETTY),
    quiet("useEpoll", kinds.BOOLEAN, "Which system call waits for packets.", NETTY),
    quiet("useKQueue", kinds.BOOLEAN, "Which system call waits for packets.", NETTY),
    quiet("useNio", kinds.BOOLEAN, "Which system call waits for packets.", NETTY),
    quiet("useInvm", kinds.BOOLEAN, "In-process transport.", NETTY),
    quiet("useGlobalWorkerPool", kinds.BOOLEAN, "Share network threads.", NETTY),
    quiet("useNioGlobalWorkerPool", kinds.BOOLEAN, "Share network threads.", NETTY),
    quiet("shutdownTimeout", kinds.LONG, "How long to wait for network threads, ms.", NETTY),
    quiet("quietPeriod", kinds.LONG, "How long to wait for network threads, ms.", NETTY),
    refused("httpUpgradeEnabled", kinds.BOOLEAN, "Begin with an HTTP upgrade.", NO_UPGRADE),
    quiet("httpUpgradeEndpoint", kinds.TEXT, "Name of the acceptor behind HTTP.", NO_UPGRADE),
    refused("useServlet", kinds.BOOLEAN, "Carry messages inside HTTP to a servlet.", NO_SERVLET),
    quiet("servletPath", kinds.TEXT, "Servlets only.", NO_SERVLET),
)

ACCEPTOR: tuple[Item, ...] = (
    honoured("protocols", kinds.TEXT, f"Protocols, with commas between: {', '.join(PROTOCOLS)}; all unless set. Only CORE is spoken."),
    honoured("protocol", kinds.TEXT, "Old name of protocols.", instead="protocols"),
    honoured("anycastPrefix", kinds.TEXT, "Name prefixes that are cut off and make an address anycast."),
    honoured("multicastPrefix", kinds.TEXT, "Name prefixes that are cut off and make an address multicast."),
    honoured("securityDomain", kinds.TEXT, "Entry of login.config that logs in the clients of this acceptor."),
    honoured("connectionsAllowed", kinds.integer(-1, kinds.INT_MAX), "Most connections; -1 no limit."),
    honoured("backlog", kinds.INT, "Connections that wait to be accepted; -1 as the system has it."),
    honoured("autoStart", kinds.BOOLEAN, "false: not opened at start."),
    honoured("needClientAuth", kinds.BOOLEAN, "Clients must show a certificate."),
    honoured("wantClientAuth", kinds.BOOLEAN, "Clients may show a certificate."),
    honoured("sniHost", kinds.PATTERN, "Pattern that the server name asked for must match."),
    warned("sslAutoReload", kinds.BOOLEAN, "Read key files again when they change.", "changed key files take effect at the next start"),
    refused("proxyProtocolEnabled", kinds.BOOLEAN, "A proxy header comes first.", "connections with that header cannot be read"),
    honoured("clusterConnection", kinds.TEXT, "The cluster connection whose topology clients are told; the first one unless set."),
    refused("router", kinds.TEXT, "A connection router.", "clients would not be sent to the broker that is meant for them", ("",)),
    quiet("httpEnabled", kinds.BOOLEAN, "Carry messages inside HTTP.", BY_BEGINNING),
    honoured("httpResponseTime", kinds.LONG, "How long an HTTP request waits for something to answer with, ms; 10000 unless set."),
    honoured("httpServerScanPeriod", kinds.LONG, "How often such requests are looked for, ms; 5000 unless set."),
    quiet("httpClientIdleTime", kinds.LONG, "HTTP only.", CLIENT_ONLY),
    quiet("httpClientIdleScanPeriod", kinds.LONG, "HTTP only.", CLIENT_ONLY),
    quiet("httpRequiresSessionId", kinds.BOOLEAN, "HTTP only.", CLIENT_ONLY),
    *TLS,
    *SOCKETS,
)

CONNECTOR: tuple[Item, ...] = (
    honoured("trustAll", kinds.BOOLEAN, "Trust any certificate; for tests only."),
    honoured("sniHost", kinds.TEXT, "Server name to ask for."),
    honoured("connect-timeout-millis", kinds.LONG, "How long connecting may take, ms."),
    honoured("localAddress", kinds.TEXT, "Address to connect from."),
    honoured("localPort", kinds.integer(0, 65535), "Port to connect from."),
    quiet("name", kinds.TEXT, "Name of this connector.", "the configuration names it"),
    quiet("forceSSLParameters", kinds.BOOLEAN, "Prefer the URL over Java properties.", "the URL is always used"),
    quiet("useDefaultSslContext", kinds.BOOLEAN, "Use Java's own TLS context.", "OpenSSL is used"),
    refused("socksEnabled", kinds.BOOLEAN, "Connect through a SOCKS proxy.", "SOCKS is not spoken"),
    quiet("socksHost", kinds.TEXT, "SOCKS only.", "SOCKS is not spoken"),
    quiet("socksPort", kinds.INT, "SOCKS only.", "SOCKS is not spoken"),
    quiet("socksVersion", kinds.INT, "SOCKS only.", "SOCKS is not spoken"),
    quiet("socksUsername", kinds.TEXT, "SOCKS only.", "SOCKS is not spoken"),
    quiet("socksPassword", kinds.TEXT, "SOCKS only.", "SOCKS is not spoken"),
    quiet("socksRemoteDNS", kinds.BOOLEAN, "SOCKS only.", "SOCKS is not spoken"),
    honoured("httpEnabled", kinds.BOOLEAN, "Carry messages inside HTTP."),
    honoured("httpClientIdleTime", kinds.LONG, "Silence after which the other side is asked what it has to say, ms; 500 unless set."),
    honoured("httpClientIdleScanPeriod", kinds.LONG, "How often the silence is looked at, ms; 500 unless set."),
    honoured("httpRequiresSessionId", kinds.BOOLEAN, "Wait for a first response, and send its session cookie from then on."),
    quiet("httpResponseTime", kinds.LONG, "HTTP only.", ACCEPTOR_ONLY),
    quiet("httpServerScanPeriod", kinds.LONG, "HTTP only.", ACCEPTOR_ONLY),
    *TLS,
    *SOCKETS,
)

OTHER_PROTOCOLS = re.compile(
    r"(stomp|amqp|mqtt|webSocket|openwire|openWire|wsMax).*"
    r"|connectionTtl(Min|Max)?|heartBeatToConnectionTtlModifier|supportAdvisory|suppressInternalManagementObjects"
    r"|defaultMqttSessionExpiryInterval|topicAliasMaximum|receiveMaximum|serverKeepAlive|maximumPacketSize|maximumInFlightPublishMessages"
    r"|closeMqttConnectionOnPublishAuthorizationFailure|allowLinkStealing|virtualTopicConsumerWildcards|lazyWrapping"
    r"|saslMechanisms|saslLoginConfigScope|maxInactivityDuration(InitalDelay)?|useKeepAlive|nodeID|pubSubPrefix|maxFrameSize|initialRemoteMaxFrameSize"
)
"""Acceptor parameters of protocols other than CORE: accepted without a word."""
