"""``sitsd``: frame → clock check → input check → sandbox → proof → output check → signed command."""
