"""Work of operators and of housekeeping: create, change, remove, divert, pause, expire, select, guard the disk.

Sessions and management requests do not come in; the room of deliveries below asks for new queues by protocols that are fulfilled here.
"""
