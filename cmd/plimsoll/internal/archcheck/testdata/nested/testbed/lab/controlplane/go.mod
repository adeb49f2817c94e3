module github.com/plimsoll/plimsoll/testbed/lab/controlplane
