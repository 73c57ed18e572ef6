"""The appliance: loop, sandbox, compiler, gate, bridge and command line."""
