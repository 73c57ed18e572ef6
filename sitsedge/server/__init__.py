"""``sits-server``: the appliance's own OPC UA server: it reads what the others say, and asks the gate only for less."""
