// Package report puts the results of an experiment on one page: what it shows, what came of
// it in tables and figures, what was claimed and measured elsewhere, and how to run it again.
//
// The page holds everything that it needs, loads nothing, and prints.
package report
