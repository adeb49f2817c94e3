// Package figure draws charts of lines and of points as SVG: small, self-contained, readable
// in light and dark, on paper and by a screen reader.
//
// Series are distinguished by marker and dash as well as by colour, so that a chart loses nothing
// in black and white. The same chart gives the same bytes.
package figure
