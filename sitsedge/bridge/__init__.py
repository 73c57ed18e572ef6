"""``sits-bridge``: reads OPC UA servers and vendors' controllers, and hands samples to the loop as UADP datagrams."""
