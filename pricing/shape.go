package pricing

// Shape is a size of virtual machine that may be bought.
type Shape struct {
	Name   string   `json:"name"`
	CPU    MilliCPU `json:"cpu"`
	Memory Bytes    `json:"memory"`
	Disk   Bytes    `json:"disk,omitempty"`
}

// Resources is what the shape takes from its host.
func (s Shape) Resources() Resources { return Resources{CPU: s.CPU, Memory: s.Memory} }

// Host is a physical machine that virtual machines are placed on.
type Host struct {
	Name string `json:"name"`
	// Room is what may be promised to virtual machines in all: the hardware, less what the
	// host keeps for itself, times the overcommitment that its owner allows.
	Room Resources `json:"room"`
}
