// Package util has no purpose.
package util
