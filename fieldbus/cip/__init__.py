"""EtherNet/IP and CIP of Logix controllers (port 44818)."""
