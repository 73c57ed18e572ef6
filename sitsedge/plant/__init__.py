"""A simulated hot-strip mill stand with its PLC: what the appliance is demonstrated and tested against.

The stand obeys the gauge-meter equation ``h = S + F/M`` with a published roll-force model (:mod:`.force`),
the PLC around it (:mod:`.plc`) publishes its measurements as OPC UA PubSub (UADP) and takes corrections
over a secured OPC UA server. Run it with ``python -m sitsedge.plant --config FILE``.
"""
