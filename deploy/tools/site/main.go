// Command site writes the documentation as pages that need no network: each page of docs and those
// beside it, with a list of all pages and a search. It refuses links that lead nowhere. It runs in
// the folder deploy/tools.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", "../..", "the `folder` of the checkout")
	out := flag.String("out", "../../out/site", "the `folder` to write to")
	flag.Parse()
	files, err := build(os.DirFS(*root))
	if err == nil {
		err = write(*out, files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Println(filepath.Join(*out, "index.html"))
}

func write(folder string, files map[string][]byte) error {
	for name, data := range files {
		name = filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
