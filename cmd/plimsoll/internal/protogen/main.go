// Protogen writes the Go code of a .proto file beside it. It is in for protoc, so that Go is
// all it takes: the file is compiled in process, and protoc's own Go plugins, at the versions
// below, are built and run by Go.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

var plugins = []string{
	"google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12",
	"google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protogen FILE.proto")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, file string) error {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			ImportPaths: []string{filepath.Dir(file)},
		}),
		SourceInfoMode: protocompile.SourceInfoStandard, // for the comments
	}
	files, err := compiler.Compile(ctx, filepath.Base(file))
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{filepath.Base(file)},
		Parameter:      proto.String("paths=source_relative"),
	}
	add(request, map[string]bool{}, files[0])
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	for _, plugin := range plugins {
		if err := run(ctx, plugin, in, filepath.Dir(file)); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// add adds a file's description after those of the files that it imports.
func add(to *pluginpb.CodeGeneratorRequest, have map[string]bool, file protoreflect.FileDescriptor) {
	if have[file.Path()] {
		return
	}
	have[file.Path()] = true
	for i := range file.Imports().Len() {
		add(to, have, file.Imports().Get(i).FileDescriptor)
	}
	to.ProtoFile = append(to.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
}

// run has a plugin write its files into a folder.
func run(ctx context.Context, plugin string, in []byte, folder string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "run", plugin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out.Bytes(), &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.File {
		if err := os.WriteFile(filepath.Join(folder, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
