"""The ``twistd mqbroker`` command.  Nothing but the name of the real module, so that the plugin can never fail to import."""

from twisted.application.service import ServiceMaker

mqbroker = ServiceMaker("mqbroker", "mqbroker.tap", "Run the message broker", "mqbroker")
