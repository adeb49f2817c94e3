// Package policy tells the world.
package policy

import (
	print "fmt"
	"log"
	"log/slog"
)

// Decide talks.
func Decide() string {
	print.Println("deciding")
	defer print.Printf("decided")
	return print.Sprint("fine")
}
