// Package docs holds the pages of the documentation that the help verb shows.
package docs

import "embed"

// Pages are by their names below docs.
//
//go:embed concepts/*.md glossary.md
var Pages embed.FS
