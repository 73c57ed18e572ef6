"""``sits-server``: the appliance's own OPC UA server.

A process of its own that reads what the others say, and asks the gate for nothing but less.
"""
