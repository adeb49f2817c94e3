package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/plimsoll/plimsoll/testbed/strict"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// unknownVerb refuses a verb that a command does not have.
func unknownVerb(cmd *cobra.Command, verb string) error {
	var verbs []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			verbs = append(verbs, c.Name())
		}
	}
	return seeHelp(cmd, misused("%s: unknown verb%s", verb, didYouMean("", verb, verbs)))
}

// noArguments refuses what stands on the command line besides flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return seeHelp(cmd, misused("%s takes flags only, was given %q", cmd.Name(), args[0]))
}

// requireFlags refuses a command line without all of the named flags.
func requireFlags(cmd *cobra.Command, names ...string) error {
	var missing []error
	for _, name := range names {
		if !cmd.Flags().Changed(name) {
			missing = append(missing, fmt.Errorf("--%s: must be given", name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return seeHelp(cmd, withCode(exitUsage, errors.Join(missing...)))
}

// explainFlagError says what is wrong with a flag as all refusals do: key, rule, value.
func explainFlagError(cmd *cobra.Command, err error) error {
	if cmd.HasAvailableSubCommands() && cmd.Flags().NArg() > 0 {
		return unknownVerb(cmd, cmd.Flags().Arg(0)) // the flags are those of the verb that was meant
	}
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown):
		err = unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		err = fmt.Errorf("--%s: must have a value", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		err = invalidValue(invalid)
	}
	return seeHelp(cmd, withCode(exitUsage, err))
}

func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError) error {
	if e.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("-%s: unknown flag", e.GetSpecifiedName())
	}
	if e.GetSpecifiedName() == "version" {
		return fmt.Errorf("--version: unknown flag, the version is what %s version prints", cmd.Root().Name())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return fmt.Errorf("--%s: unknown flag%s", e.GetSpecifiedName(), didYouMean("--", e.GetSpecifiedName(), names))
}

// invalidValue takes the word of flags that name the rule themselves, as those of flagOf do, and
// says of the library's own what they must be.
func invalidValue(e *pflag.InvalidValueError) error {
	var number *strconv.NumError
	if f := e.GetFlag(); errors.As(e, &number) {
		return fmt.Errorf("--%s: must be %s, was %q", f.Name, cmp.Or(kinds[f.Value.Type()], "a value of type "+f.Value.Type()), e.GetValue())
	}
	return fmt.Errorf("--%s: %w", e.GetFlag().Name, e.Unwrap())
}

// kinds are the library's types as people call them.
var kinds = map[string]string{
	"bool": "true or false", "int": "a whole number", "uint64": "a whole number from 0 up", "float64": "a number",
}

func didYouMean(prefix, word string, choices []string) string {
	near, ok := strict.Nearest(word, choices)
	if !ok {
		return ""
	}
	return fmt.Sprintf(", did you mean %s%s?", prefix, near)
}

func seeHelp(cmd *cobra.Command, err error) error {
	return withHint(fmt.Sprintf("see %s --help", cmd.CommandPath()), err)
}
