// Package pve has its room below.
package pve
