// Package api is above its room.
package api
