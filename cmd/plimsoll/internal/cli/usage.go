package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll/plimsoll/testbed/strict"
)

// unknownVerb refuses a verb that a command does not have.
func unknownVerb(cmd *cobra.Command, verb string) error {
	var verbs []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			verbs = append(verbs, c.Name())
		}
	}
	return SeeHelp(cmd, Misused("%s: unknown verb%s", verb, DidYouMean("", verb, verbs)))
}

// NoArguments refuses arguments on the command line besides flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return SeeHelp(cmd, Misused("%s takes flags only, was given %q", cmd.Name(), args[0]))
}

// RequireFlags refuses a command line without all of the named flags.
func RequireFlags(cmd *cobra.Command, names ...string) error {
	var missing []error
	for _, name := range names {
		if !cmd.Flags().Changed(name) {
			missing = append(missing, fmt.Errorf("--%s: must be given", name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return SeeHelp(cmd, WithCode(ExitUsage, errors.Join(missing...)))
}

// explainFlagError says what is wrong with a flag as all refusals do: key, rule, value.
func explainFlagError(cmd *cobra.Command, err error) error {
	if cmd.HasAvailableSubCommands() && cmd.Flags().NArg() > 0 {
		// The flags are those of the verb that was meant.
		return unknownVerb(cmd, cmd.Flags().Arg(0))
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
	return SeeHelp(cmd, WithCode(ExitUsage, err))
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
	return fmt.Errorf("--%s: unknown flag%s", e.GetSpecifiedName(), DidYouMean("--", e.GetSpecifiedName(), names))
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

// DidYouMean names the choice that a word is most like, as the end of a sentence; empty if none is.
func DidYouMean(prefix, word string, choices []string) string {
	near, ok := strict.Nearest(word, choices)
	if !ok {
		return ""
	}
	return fmt.Sprintf(", did you mean %s%s?", prefix, near)
}

// SeeHelp adds to an error where the command's help is.
func SeeHelp(cmd *cobra.Command, err error) error {
	return WithHint(fmt.Sprintf("see %s --help", cmd.CommandPath()), err)
}
