package signals

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// namespaceLabels are the labels that name the namespace that a series is about.
var namespaceLabels = []string{"namespace", "exported_namespace", "kubernetes_namespace", "k8s_namespace_name", "destination_workload_namespace"}

// forms are how services' names are written that say which namespace they are of, by presets whose
// series have no label for it. No name has one of these forms for two namespaces: the marks between
// parts are in no part or, where they are hyphens, each part is a word without.
var forms = map[Preset][]string{
	Envoy: {
		"outbound|<port>|<subset>|<name>.<namespace>.svc.<domain>", // Istio
		"<namespace>_<name>_<port>",                                // Contour
		"httproute/<namespace>/<name>/rule/<rule>",                 // Envoy Gateway
		"grpcroute/<namespace>/<name>/rule/<rule>",
	},
	OTel:    {"<namespace>/<service>"},
	Traefik: {"<namespace>-<word>-<word>@kubernetes<kind>"},
}

// formParts are the parts of forms as regular expressions.
var formParts = strings.NewReplacer("<name>", "[-a-z0-9]+", "<port>", "[0-9]+", "<subset>", "[-a-z0-9]*", "<domain>", "[-.a-z0-9]+",
	"<rule>", "[0-9]+(?:/backend/[0-9]+)?", "<service>", "(?s:.+)", "<word>", "[a-z0-9]+", "<kind>", "[a-z]*")

// serviceInScope wants the name by which a preset finds a workload in the shared Prometheus to be
// one that no other namespace can have, unless a label beside it says the namespace.
func (s *Source) serviceInScope() error {
	namespace, whole, known := s.Target.Namespace, s.service(), forms[s.Spec.preset()]
	rule := strings.ReplaceAll(strings.Join(known, " or "), "<namespace>", namespace)
	certain := true
	switch preset := s.Spec.preset(); {
	case preset == OTel && s.Spec.Service == "":
		whole = namespace + "/" + whole
	case preset == Traefik:
		if !strings.Contains(whole, "@") {
			whole = namespace + "-" + whole + "-0@kubernetes"
		}
		certain = !strings.ContainsAny(namespace, "-.")
		rule = "<word> or " + rule + ", in a namespace of one <word>: a name of more words may be one of several namespaces'"
	}
	switch {
	case known == nil || s.Spec.Scrape != nil,
		certain && slices.ContainsFunc(known, func(form string) bool { return hasForm(form, namespace, whole) }),
		slices.ContainsFunc(namespaceLabels, func(l string) bool { return s.Spec.Match[l] == namespace }):
		return nil
	}
	return fmt.Errorf("%s: on the Prometheus that all namespaces share signals.service must be written as %s, was %q in namespace %s: "+
		"write it so, or have signals.match choose namespace: %[4]s, or an administrator list %[4]s in signals.freeQueries",
		refusedByPolicy, rule, s.service(), namespace)
}

// hasForm reports whether a service's name has a form, with a namespace in its place.
func hasForm(form, namespace, service string) bool {
	pattern := strings.ReplaceAll(formParts.Replace(regexp.QuoteMeta(form)), "<namespace>", regexp.QuoteMeta(namespace))
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(service)
}

// checkScope wants every selector of a query to have a matcher for the namespace. It knows just so
// much of PromQL that a name which it does not know for a function's, or for a word of the language
// where that has its place, is a selector's; and refuses what it cannot read. So what it lets pass
// reads nothing else, in the dialects of other stores too, and some that would be harmless is
// refused.
func checkScope(query, namespace string) error {
	c := scopeCheck{namespace: namespace}
	for rest := query; rest != ""; {
		text := tokenForm.FindString(rest)
		rest = rest[len(text):]
		if glued := text != "" && text[0] >= '0' && text[0] <= '9' && gluedForm.MatchString(rest); text == "" || glued {
			return fmt.Errorf("must be PromQL in which every selector is seen to have namespace=%q, was not at %s", namespace, strconv.Quote(short(text+rest)))
		}
		if err := c.take(text, rest[len(blankForm.FindString(rest)):]); err != nil {
			return err
		}
	}
	if c.braces || c.labels {
		return errors.New("must close every brace")
	}
	return nil
}

// tokenForm is blanks and comments, a string, a range in brackets, a number or time, a name, an
// operator or a mark. What stores read differently is not among them: a carriage return, which may
// end a comment or not, and a backslash in backquotes, which may escape or not.
var (
	blankForm = regexp.MustCompile(`^(?:#[^\r\n]*|[ \t\n]+)*`)
	tokenForm = regexp.MustCompile(`^(?:#[^\r\n]*|[ \t\n]+|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|` + "`[^`\\\\]*`" +
		`|\[[0-9a-z:. \t]*\]|0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+|(?:ms|[smhdwyi])(?:[0-9]+(?:ms|[smhdwyi]))*)?` +
		`|[a-zA-Z_:][a-zA-Z0-9_:]*|=~|!~|==|!=|<=|>=|[-+*/%^<>=@(){},])`)
	wordForm  = regexp.MustCompile(`^[a-zA-Z_:]`)
	gluedForm = regexp.MustCompile(`^[a-zA-Z0-9_:]`)
)

// scopeCheck walks through a query.
type scopeCheck struct {
	namespace string
	last      string   // the token before, blanks aside
	braces    bool     // within a selector
	own       bool     // which has a matcher for the namespace
	matcher   []string // that it is at
	labels    bool     // within a list of labels, as behind by
	list      bool     // which must come next
}

func (c *scopeCheck) take(text, rest string) error {
	if strings.ContainsAny(text[:1], " \t\n#") {
		return nil
	}
	defer func() { c.last = text }()
	switch {
	case c.braces:
		return c.inSelector(text)
	case c.labels || c.list:
		return c.inLabels(text)
	case text == "{":
		c.braces, c.own, c.matcher = true, false, nil
		return nil
	case text == "}":
		return errors.New("must close no brace that is not open")
	case wordForm.MatchString(text):
		return c.checkWord(text, rest)
	}
	return nil
}

// inSelector takes what is between braces: a list of matchers, all of which a series must meet.
func (c *scopeCheck) inSelector(text string) error {
	if text != "," && text != "}" {
		c.matcher = append(c.matcher, text)
		return nil
	}
	switch m := c.matcher; {
	case len(m) == 0:
	case len(m) == 1 && wordForm.MatchString(m[0]) || len(m) != 1 && len(m) != 3:
		return c.refuse(strings.Join(m, " "))
	case len(m) == 3:
		if !slices.Contains([]string{"=", "!=", "=~", "!~"}, m[1]) || !strings.ContainsAny(m[2][:1], "\"'`") {
			return c.refuse(strings.Join(m, " "))
		}
		if slices.Contains(namespaceLabels, m[0]) && m[1] == "=" && m[2][1:len(m[2])-1] == c.namespace {
			c.own = true
		}
	}
	c.matcher = nil
	if text == "}" {
		c.braces = false
		if !c.own {
			return c.refuse("one without")
		}
	}
	return nil
}

// inLabels takes a list of labels' names.
func (c *scopeCheck) inLabels(text string) error {
	switch {
	case c.list && text == "(":
		c.list, c.labels = false, true
	case c.list || text == "(" || text == "{":
		return c.refuse(text)
	case text == ")":
		c.labels = false
	}
	return nil
}

// checkWord takes a name outside of braces.
func (c *scopeCheck) checkWord(text, rest string) error {
	operand := operandForm.MatchString(c.last)
	switch lower := strings.ToLower(text); {
	case strings.HasPrefix(rest, "{"):
		return nil // its selector is looked at
	case slices.Contains([]string{"by", "without", "on", "ignoring"}, lower) && strings.HasPrefix(rest, "("):
		c.list = true
		return nil
	case slices.Contains([]string{"group_left", "group_right"}, lower) && c.last == ")":
		c.list = strings.HasPrefix(rest, "(")
		return nil
	case slices.Contains([]string{"and", "or", "unless", "atan2", "offset"}, lower) && operand,
		lower == "bool" && slices.Contains([]string{"==", "!=", "<", ">", "<=", ">="}, c.last),
		lower == "inf" || lower == "nan":
		return nil
	case slices.Contains(aggregations, lower) && byForm.MatchString(rest):
		return nil
	case strings.HasPrefix(rest, "(") && lower != "info":
		// Which reads series that no selector names.
		return nil
	}
	return c.refuse(text)
}

var (
	aggregations = []string{
		"sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "topk", "bottomk", "count_values", "quantile", "limitk", "limit_ratio",
	}
	// operandForm is a token that ends an operand.
	operandForm = regexp.MustCompile(`^(?:[)}]|\[.*\]|[0-9.].*)$`)
	byForm      = regexp.MustCompile(`^(?i)(by|without)\s*\(`)
)

func (c *scopeCheck) refuse(was string) error {
	return fmt.Errorf("must have namespace=%q in every selector, was %s", c.namespace, strconv.Quote(short(was)))
}
