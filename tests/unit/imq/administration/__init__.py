"""What the commands of OpenMQ ask a broker for."""
