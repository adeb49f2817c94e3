// Package provider lets an upstream cluster-autoscaler scale machines through Plimsoll: it serves
// the contract of the external provider, and that of the external expander.
//
// Every answer is given from memory. What cluster-autoscaler asks for is handed to the machine
// port, which records it and works on it behind; how far that has come is seen in the next answers.
//
// A group's target size is not kept anywhere: it is how many machines of the group were ordered and
// not reclaimed, and the port remembers those. So target, instances and machines cannot drift
// apart, regardless of what dies when.
package provider
