"""``sits-bridge``: subscribes to tags of an OPC UA server and hands them to the loop as UADP datagrams."""
