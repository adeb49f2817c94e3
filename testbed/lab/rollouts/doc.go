// Package rollouts has the binary replace machines of services that are under load, and gives it a
// template in the middle of which no machine boots. Requests and pods show what that costs.
package rollouts
