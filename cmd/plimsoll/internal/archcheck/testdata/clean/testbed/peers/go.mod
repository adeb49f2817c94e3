module github.com/plimsoll/plimsoll/testbed/peers
