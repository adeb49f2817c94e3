package testbed
