// Package browsertest opens the pages that the program writes in a real browser, without a network,
// and looks at them as a reader would. It checks whether they complain, whether every figure is
// there with a table beside it, and whether everything can be read in light, in dark, on paper, on
// a telephone and without a mouse.
//
// Its tests need Chromium and are built with the tag browser: make browser-test.
package browsertest
