// Package twins holds what Plimsoll copies of others against the others themselves, in the lab.
package twins
