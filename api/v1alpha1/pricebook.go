package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefaultPriceBook is the name of the book that machines are priced by, unless the configuration of
// plimsoll run names another.
const DefaultPriceBook = "default"

// A PriceBook says what machines cost: by vCPU and memory, with what differs by shape, by host and
// by time of day, or derived from power and hardware. The book named default is the one that
// counts. The most particular price counts: the shape's, then the host's, then that of the tariff
// in force, then the book's.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=plimsoll
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.spec.currency`
// +kubebuilder:printcolumn:name="vCPU/h",type=string,JSONPath=`.status.prices.pricePerVCPUHour`
// +kubebuilder:printcolumn:name="GB/h",type=string,JSONPath=`.status.prices.pricePerGBHour`,description="For 10⁹ bytes of memory"
// +kubebuilder:printcolumn:name="Active",type=boolean,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="GiB/h",type=string,JSONPath=`.status.prices.pricePerGiBHour`,priority=1,description="For 2³⁰ bytes of memory"
// +kubebuilder:printcolumn:name="Tariff",type=string,JSONPath=`.status.prices.tariff`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PriceBook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The prices.
	// +required
	Spec PriceBookSpec `json:"spec"`
	// What they come to.
	// +optional
	Status PriceBookStatus `json:"status,omitempty"`
}

// PriceBookList is a list of PriceBooks.
//
// +kubebuilder:object:root=true
type PriceBookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PriceBook `json:"items"`
}

// PriceBookSpec is the prices. Its keys are those of the file that plimsoll price --book takes.
//
// +kubebuilder:validation:XValidation:rule="has(self.derived) || has(self.pricePerVCPUHour)",messageExpression="'must have a pricePerVCPUHour or derived, was with neither'"
// +kubebuilder:validation:XValidation:rule="has(self.derived) || has(self.pricePerGBHour) || has(self.pricePerGiBHour)",messageExpression="'must have a pricePerGBHour, a pricePerGiBHour or derived, was with none of them'"
// +kubebuilder:validation:XValidation:rule="!has(self.pricePerGBHour) || !has(self.pricePerGiBHour)",messageExpression="'must have no pricePerGiBHour beside pricePerGBHour, was with both'"
// +kubebuilder:validation:XValidation:rule="!has(self.derived) || !has(self.pricePerVCPUHour) && !has(self.pricePerGBHour) && !has(self.pricePerGiBHour)",fieldPath=".derived",message="must be in place of pricePerVCPUHour, pricePerGBHour and pricePerGiBHour, was beside one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.derived) || has(self.derived.wattsPerHost) || has(self.derived.wattsPerVCPU) || has(self.derived.wattsPerGB) || has(self.derived.hardwarePrice) || has(self.hosts) && self.hosts.exists(h, has(self.hosts[h].wattsPerHost) || has(self.hosts[h].hardwarePrice))",fieldPath=".derived",message="must have watts or a hardwarePrice, was with neither"
// +kubebuilder:validation:XValidation:rule="!has(self.derived) || !has(self.hosts) || has(self.derived.wattsPerHost) || !has(self.derived.wattsPerVCPU) && !has(self.derived.wattsPerGB) || !self.hosts.exists(h, has(self.hosts[h].wattsPerHost))",fieldPath=".hosts",message="must have no wattsPerHost where derived states power per vCPU and GB, was with it"
// +kubebuilder:validation:XValidation:rule="!has(self.derived) || !has(self.hosts) || has(self.derived.hardwarePrice) || has(self.derived.amortiseMonths) || !self.hosts.exists(h, has(self.hosts[h].hardwarePrice))",fieldPath=".derived.amortiseMonths",message="must be there where a host has a hardwarePrice, was absent"
// +kubebuilder:validation:XValidation:rule="!has(self.derived) || !has(self.hosts) || has(self.derived.wattsPerHost) || has(self.derived.hardwarePrice) || has(self.derived.hostVCPU) && has(self.derived.hostMemory) && has(self.derived.vCPUSharePercent) || !self.hosts.exists(h, has(self.hosts[h].wattsPerHost) || has(self.hosts[h].hardwarePrice))",fieldPath=".derived",message="must have hostVCPU, hostMemory and vCPUSharePercent where a host has wattsPerHost or a hardwarePrice, was without one of them"
// +kubebuilder:validation:XValidation:rule="has(self.derived) || !has(self.hosts) || self.hosts.all(h, !has(self.hosts[h].wattsPerHost) && !has(self.hosts[h].hardwarePrice) && !has(self.hosts[h].hostVCPU) && !has(self.hosts[h].hostMemory))",fieldPath=".hosts",message="must have no wattsPerHost, hardwarePrice, hostVCPU or hostMemory in a book that is not derived, was with one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.tariffs) || self.tariffs.all(t, has(self.derived) ? has(t.percent) != has(t.pricePerKWh) : has(t.percent) || has(t.pricePerVCPUHour) || has(t.pricePerGBHour) || has(t.pricePerGiBHour) || has(t.pricePerHostHour) || has(t.pricePerKWh))",fieldPath=".tariffs",messageExpression="(has(self.derived) ? 'must each have either percent or pricePerKWh in a derived book, was with %s from %s to %s' : 'must each have percent or prices of its own, was with %s from %s to %s').format(self.tariffs.filter(t, has(self.derived) ? has(t.percent) == has(t.pricePerKWh) : !(has(t.percent) || has(t.pricePerVCPUHour) || has(t.pricePerGBHour) || has(t.pricePerGiBHour) || has(t.pricePerHostHour) || has(t.pricePerKWh))).map(t, [has(t.percent) ? 'both' : 'neither', t.from, t.to])[0])"
// +kubebuilder:validation:XValidation:rule="!has(self.tariffs) || has(self.derived) || self.tariffs.all(t, !has(t.pricePerKWh))",fieldPath=".tariffs",messageExpression="'must have no pricePerKWh in a book that is not derived, was with it from %s to %s'.format(self.tariffs.filter(t, has(t.pricePerKWh)).map(t, [t.from, t.to])[0])"
// +kubebuilder:validation:XValidation:rule="!has(self.tariffs) || !has(self.derived) || self.tariffs.all(t, !has(t.pricePerVCPUHour) && !has(t.pricePerGBHour) && !has(t.pricePerGiBHour) && !has(t.pricePerHostHour))",fieldPath=".tariffs",message="must have percent or pricePerKWh in a derived book, was with prices per hour"
type PriceBookSpec struct {
	// The name of the money: EUR, units.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Currency string `json:"currency"`
	// What an hour of one vCPU costs: 1 or "0.0316".
	// +optional
	PricePerVCPUHour *Money `json:"pricePerVCPUHour,omitempty"`
	// What an hour of 10⁹ bytes of memory costs. Memory is priced by GB or by GiB, not by both.
	// +optional
	PricePerGBHour *Money `json:"pricePerGBHour,omitempty"`
	// What an hour of 2³⁰ bytes of memory costs.
	// +optional
	PricePerGiBHour *Money `json:"pricePerGiBHour,omitempty"`
	// Works the three prices out from power and hardware, in their place.
	// +optional
	Derived *Derived `json:"derived,omitempty"`
	// What an hour of 10⁹ bytes of disk costs a machine that is stopped, as spares are. While one
	// runs, its disk is in the prices of its vCPUs and memory. By default spares cost nothing.
	// +optional
	PricePerDiskGBHour *Money `json:"pricePerDiskGBHour,omitempty"`
	// What an hour of each machine that runs costs besides its vCPUs and memory: its address, its
	// license and backup, what its kernel and agents take. It is not added to a shape's
	// pricePerHour.
	// +optional
	PricePerMachineHour *Money `json:"pricePerMachineHour,omitempty"`
	// What each host costs for as long as it carries at least one of our machines, however many:
	// what could be saved by giving back the last of them.
	// +optional
	PricePerHostHour *Money `json:"pricePerHostHour,omitempty"`
	// What differs by host.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Hosts map[string]HostPrices `json:"hosts,omitempty"`
	// What differs by the name of a shape.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Shapes map[string]ShapePrices `json:"shapes,omitempty"`
	// Whose clock the tariffs go by: Europe/Berlin. Default: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z][A-Za-z0-9_+/-]*$')`,message="must be UTC or the name of a time zone: Europe/Berlin"
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="must be UTC or the name of a time zone, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
	// What differs by time of day.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=48
	Tariffs []Tariff `json:"tariffs,omitempty"`
}

// HostPrices is what differs on one host.
//
// +kubebuilder:validation:XValidation:rule="!has(self.pricePerGBHour) || !has(self.pricePerGiBHour)",messageExpression="'must have no pricePerGiBHour beside pricePerGBHour, was with both'"
type HostPrices struct {
	// What an hour of one vCPU costs there.
	// +optional
	PricePerVCPUHour *Money `json:"pricePerVCPUHour,omitempty"`
	// What an hour of 10⁹ bytes of memory costs there.
	// +optional
	PricePerGBHour *Money `json:"pricePerGBHour,omitempty"`
	// What an hour of 2³⁰ bytes of memory costs there.
	// +optional
	PricePerGiBHour *Money `json:"pricePerGiBHour,omitempty"`
	// What the host costs for as long as it carries at least one of our machines.
	// +optional
	PricePerHostHour *Money `json:"pricePerHostHour,omitempty"`
	// What the host draws, in a derived book.
	// +optional
	WattsPerHost *Watts `json:"wattsPerHost,omitempty"`
	// What the host was bought for, in a derived book.
	// +optional
	HardwarePrice *Money `json:"hardwarePrice,omitempty"`
	// How many vCPUs the host has to give in all, in a derived book.
	// +optional
	HostVCPU *HostVCPU `json:"hostVCPU,omitempty"`
	// How much memory the host has to give in all, in a derived book: 64GB.
	// +optional
	HostMemory *HostMemory `json:"hostMemory,omitempty"`
}

// ShapePrices is what differs for the shapes of one name: a price for the whole machine, or prices
// for its parts.
//
// +kubebuilder:validation:XValidation:rule="!has(self.pricePerGBHour) || !has(self.pricePerGiBHour)",messageExpression="'must have no pricePerGiBHour beside pricePerGBHour, was with both'"
// +kubebuilder:validation:XValidation:rule="!has(self.pricePerHour) || !has(self.pricePerVCPUHour) && !has(self.pricePerGBHour) && !has(self.pricePerGiBHour)",messageExpression="'must have no pricePerHour beside prices per vCPU or memory, was with both'"
type ShapePrices struct {
	// What an hour of the whole machine costs.
	// +optional
	PricePerHour *Money `json:"pricePerHour,omitempty"`
	// What an hour of one of its vCPUs costs.
	// +optional
	PricePerVCPUHour *Money `json:"pricePerVCPUHour,omitempty"`
	// What an hour of 10⁹ bytes of its memory costs.
	// +optional
	PricePerGBHour *Money `json:"pricePerGBHour,omitempty"`
	// What an hour of 2³⁰ bytes of its memory costs.
	// +optional
	PricePerGiBHour *Money `json:"pricePerGiBHour,omitempty"`
}

// Derived works out prices from what the hosts draw and what they were bought for. Power is stated
// for a whole host or for each vCPU and GB. What is stated for a whole host, and the hardware, is
// shared out over all that the host has to give.
//
// +kubebuilder:validation:XValidation:rule="!has(self.wattsPerHost) || !has(self.wattsPerVCPU) && !has(self.wattsPerGB)",messageExpression="'must state power per host or per vCPU and GB, was with both'"
// +kubebuilder:validation:XValidation:rule="!has(self.hardwarePrice) || has(self.amortiseMonths)",fieldPath=".amortiseMonths",message="must be there where there is a hardwarePrice, was absent"
// +kubebuilder:validation:XValidation:rule="!has(self.wattsPerHost) && !has(self.hardwarePrice) || has(self.hostVCPU) && has(self.hostMemory) && has(self.vCPUSharePercent)",messageExpression="'must have hostVCPU, hostMemory and vCPUSharePercent where wattsPerHost or a hardwarePrice are shared out, was without ' + (!has(self.hostVCPU) ? 'hostVCPU' : !has(self.hostMemory) ? 'hostMemory' : 'vCPUSharePercent')"
type Derived struct {
	// What a host draws: 60.
	// +optional
	WattsPerHost *Watts `json:"wattsPerHost,omitempty"`
	// What a host was bought for.
	// +optional
	HardwarePrice *Money `json:"hardwarePrice,omitempty"`
	// How many vCPUs a host has to give in all.
	// +optional
	HostVCPU *HostVCPU `json:"hostVCPU,omitempty"`
	// How much memory a host has to give in all: 64GB.
	// +optional
	HostMemory *HostMemory `json:"hostMemory,omitempty"`
	// What one vCPU draws: "7.5".
	// +optional
	WattsPerVCPU *Watts `json:"wattsPerVCPU,omitempty"`
	// What 10⁹ bytes of memory draw: "0.4".
	// +optional
	WattsPerGB *Watts `json:"wattsPerGB,omitempty"`
	// What a kilowatt-hour costs: "0.30".
	// +required
	PricePerKWh Money `json:"pricePerKWh"`
	// How many months the hardware is used for: 48.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1200
	AmortiseMonths int32 `json:"amortiseMonths,omitempty"`
	// The part of what is shared out that the vCPUs bear; memory bears the rest: 50.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self <= 100 : string(self).matches('^0*([0-9]?[0-9]([.][0-9]+)?|100([.]0+)?)$')",message="must be from 0 to 100"
	VCPUSharePercent *Percent `json:"vCPUSharePercent,omitempty"`
}

// HostVCPU is how many vCPUs a host has.
//
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
type HostVCPU Cores

// HostMemory is how much memory a host has.
//
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
type HostMemory Size

// Tariff is what differs in a window of the day: a percentage of every price, or prices in place of
// the book's. In a derived book it is a percentage of the price of energy, or another price of
// energy.
//
// +kubebuilder:validation:XValidation:rule="self.from != self.to",messageExpression="'must have a from and a to that differ (the whole day is 00:00 to 24:00), was ' + self.from"
// +kubebuilder:validation:XValidation:rule="!has(self.pricePerGBHour) || !has(self.pricePerGiBHour)",messageExpression="'must have no pricePerGiBHour beside pricePerGBHour, was with both'"
// +kubebuilder:validation:XValidation:rule="!has(self.percent) || !has(self.pricePerVCPUHour) && !has(self.pricePerGBHour) && !has(self.pricePerGiBHour) && !has(self.pricePerHostHour)",messageExpression="'must have either percent or prices of its own, was with both'"
type Tariff struct {
	// What it is called: night.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// When it begins: "22:00".
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([01][0-9]|2[0-3]):[0-5][0-9]$')`,message="must be a time of day as HH:MM, from 00:00 to 23:59: 06:00"
	From string `json:"from"`
	// When it ends: "06:00". A window whose end is not after its beginning crosses midnight.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$')`,message="must be a time of day as HH:MM, from 00:00 to 24:00: 06:00"
	To string `json:"to"`
	// The days on which the window begins. Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	Weekdays []Weekday `json:"weekdays,omitempty"`
	// So much of every price: 60.
	// +optional
	Percent *Percent `json:"percent,omitempty"`
	// What an hour of one vCPU costs then.
	// +optional
	PricePerVCPUHour *Money `json:"pricePerVCPUHour,omitempty"`
	// What an hour of 10⁹ bytes of memory costs then.
	// +optional
	PricePerGBHour *Money `json:"pricePerGBHour,omitempty"`
	// What an hour of 2³⁰ bytes of memory costs then.
	// +optional
	PricePerGiBHour *Money `json:"pricePerGiBHour,omitempty"`
	// What each host costs then, while it carries at least one of our machines.
	// +optional
	PricePerHostHour *Money `json:"pricePerHostHour,omitempty"`
	// What a kilowatt-hour costs then, in a derived book.
	// +optional
	PricePerKWh *Money `json:"pricePerKWh,omitempty"`
}

// Weekday is a day of the week.
//
// +kubebuilder:validation:Enum=Mon;Tue;Wed;Thu;Fri;Sat;Sun
type Weekday string

// PriceBookStatus is what a book's prices come to.
type PriceBookStatus struct {
	// The generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Whether machines are priced by this book.
	// +optional
	Active bool `json:"active"`
	// The prices that are in force.
	// +optional
	Prices *ResolvedPrices `json:"prices,omitempty"`
	// What holds of the object: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ResolvedPrices are the prices that are in force where neither host nor shape has its own.
type ResolvedPrices struct {
	// What an hour of one vCPU costs.
	// +optional
	PricePerVCPUHour string `json:"pricePerVCPUHour,omitempty"`
	// What an hour of 10⁹ bytes of memory costs.
	// +optional
	PricePerGBHour string `json:"pricePerGBHour,omitempty"`
	// What an hour of 2³⁰ bytes of memory costs.
	// +optional
	PricePerGiBHour string `json:"pricePerGiBHour,omitempty"`
	// The tariff in force, if there is one.
	// +optional
	Tariff string `json:"tariff,omitempty"`
	// When the next tariff comes into force or this one ends.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// How the prices came about, line by line, where they are derived.
	// +optional
	// +listType=atomic
	Working []string `json:"working,omitempty"`
}
