package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// TestDeployed: what compose, systemd and Kubernetes are told to run exists, with the flags that they give it.
func TestDeployed(t *testing.T) {
	files := must.Get(filepath.Glob("../deploy/*/*"))(t)
	files = append(files, "../compose.yaml", "../compose.cluster.yaml")
	checkServices(t, string(must.Get(os.ReadFile("../compose.yaml"))(t)))
	found := map[string]int{}
	for _, file := range files {
		b := must.Get(os.ReadFile(file))(t)
		text := string(b)
		var runs [][]string
		switch ext := filepath.Ext(file); ext {
		case ".yaml":
			checkYAML(t, file, text)
			runs = yamlCommands(text)
		case ".service":
			runs = unitCommands(text)
		case ".plist":
			runs = plistCommands(text)
		case ".timer":
			checkTimer(t, file, text)
			continue
		default: // a dashboard, alarms
			continue
		}
		if len(runs) == 0 {
			t.Errorf("%s runs nothing of Spool", file)
		}
		for _, run := range runs {
			found[run[0]]++
			if run[0] == "spool" && len(run) > 1 {
				found[run[1]]++
			}
			checkRun(t, file, run)
		}
	}
	for _, program := range []string{"spool", "persister", "ingest", "gc"} {
		if found[program] < 3 {
			t.Errorf("%s is run %d times, want three at least: by compose, systemd and Kubernetes", program, found[program])
		}
	}
}

var (
	imageLine = regexp.MustCompile(`^\s*image: spool(?::\S+)?$`)
	argsLine  = regexp.MustCompile(`^\s*(?:args|command|test): \[(.*)\]$`)
	yamlLine  = regexp.MustCompile(`^(  )*(#.*|- \S.*|[A-Za-z0-9_.\-]+:( .*)?|<<: \S.*|\S.*)?$`)
)

func yamlCommands(text string) (runs [][]string) {
	ours := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "image: ") {
			ours = imageLine.MatchString(line)
		}
		m := argsLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var words []string
		for _, w := range strings.Split(m[1], ",") {
			words = append(words, strings.Trim(strings.TrimSpace(w), `"`))
		}
		if words[0] != "CMD" && ours {
			runs = append(runs, append([]string{"spool"}, words...))
		}
	}
	return runs
}

func unitCommands(text string) (runs [][]string) {
	for line := range strings.Lines(text) {
		if cmd, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=/usr/local/bin/"); ok {
			runs = append(runs, strings.Fields(cmd))
		}
	}
	return runs
}

var plistWord = regexp.MustCompile(`<string>([^<]*)</string>`)

func plistCommands(text string) (runs [][]string) {
	_, text, _ = strings.Cut(text, "<key>ProgramArguments</key>")
	text, _, _ = strings.Cut(text, "</array>")
	var words []string
	for _, m := range plistWord.FindAllStringSubmatch(text, -1) {
		words = append(words, strings.TrimPrefix(m[1], "/usr/local/bin/"))
	}
	if len(words) == 0 {
		return nil
	}
	return [][]string{words}
}

// checkYAML looks for what breaks a file most often: tabs, odd indents, brackets that stay open; and, in a manifest, for what
// each document needs.
func checkYAML(t *testing.T, file, text string) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		switch indent := len(line) - len(strings.TrimLeft(line, " ")); {
		case strings.Contains(line, "\t"), indent%2 != 0, !yamlLine.MatchString(line):
			t.Errorf("%s:%d: %q: a tab, or an odd indent", file, i+1, line)
		}
	}
	for _, pair := range []string{"{}", "[]"} {
		if a, b := strings.Count(text, pair[:1]), strings.Count(text, pair[1:]); a != b {
			t.Errorf("%s: %d %s and %d %s", file, a, pair[:1], b, pair[1:])
		}
	}
	if !strings.Contains(file, "kubernetes") {
		return
	}
	for _, doc := range strings.Split(text, "\n---\n") {
		for _, want := range []string{"apiVersion: ", "kind: ", "metadata:\n  name: "} {
			if !strings.Contains("\n"+doc, "\n"+want) {
				t.Errorf("%s: a document without %q", file, want)
			}
		}
		if !strings.Contains(doc, "containers:") {
			continue
		}
		for _, want := range []string{"runAsNonRoot: true", "readOnlyRootFilesystem: true", "drop: [ALL]", "GOMEMLIMIT", "limits: {memory:"} {
			if !strings.Contains(doc, want) {
				t.Errorf("%s: a pod without %q", file, want)
			}
		}
		if strings.Contains(doc, "kind: CronJob") && !strings.Contains(doc, "concurrencyPolicy: Forbid") {
			t.Errorf("%s: a CronJob that may run twice at a time", file)
		}
		if strings.Contains(doc, "kind: Deployment") && !strings.Contains(doc, "livenessProbe:") {
			t.Errorf("%s: a Deployment without a probe", file)
		}
	}
}

var serviceName = regexp.MustCompile(`(?m)^  [a-z]+:$`)

// checkServices looks for what each service of compose has: an end to its memory and to its log, and a probe that asks its own process.
func checkServices(t *testing.T, text string) {
	t.Helper()
	_, text, _ = strings.Cut(text, "\nservices:\n")
	text, _, _ = strings.Cut(text, "\nconfigs:\n")
	services := serviceName.Split("\n"+text, -1)[1:]
	if len(services) != 5 {
		t.Fatalf("compose.yaml has %d services, want nats, persister, ingest, gc and page", len(services))
	}
	for _, service := range services {
		for _, want := range []string{"mem_limit: ", "GOMEMLIMIT: ", "healthcheck:", "logging: "} {
			if !strings.Contains(strings.ReplaceAll(service, "<<: *spool\n", "logging: "), want) {
				t.Errorf("compose.yaml: a service without %q:\n%.200s", want, service)
			}
		}
		if strings.Contains(service, "/bin/spool, ") {
			t.Errorf("compose.yaml: a probe that asks the system, not its process:\n%.200s", service)
		}
	}
}

func checkTimer(t *testing.T, file, text string) {
	t.Helper()
	if _, err := os.Stat(strings.TrimSuffix(file, ".timer") + ".service"); err != nil || !strings.Contains(text, "\nOnCalendar=") {
		t.Errorf("%s: %v, or no OnCalendar: nothing would be started", file, err)
	}
}

var helps = map[string]string{}

// checkRun holds a command line against what the program says that it takes.
func checkRun(t *testing.T, file string, run []string) {
	t.Helper()
	ask := []string{run[0]}
	for _, w := range run[1:] {
		if run[0] == "spool" && slices.Contains([]string{"up", "serve", "backup", "check", "watch", "persister", "ingest", "gc"}, w) {
			ask = append(ask, w)
		}
	}
	if run[0] == "spool" && len(ask) != 2 {
		t.Errorf("%s: %v: none, or several of the commands that this test knows", file, run)
		return
	}
	key := strings.Join(ask, " ")
	if helps[key] == "" {
		questions := [][]string{append(ask[1:], "--help")}
		if key == "spool gc" { // the daemon, which it is with -every and -once
			questions[0] = []string{"gc", "--once", "--help"}
		}
		if run[0] == "spool" { // flags of every command
			questions = append(questions, []string{"help", "connection"})
		}
		for _, q := range questions {
			out, err := exec.Command(filepath.Join(proc.Bin(), ask[0]), q...).CombinedOutput()
			if len(out) == 0 {
				t.Fatalf("%s %v = %v", ask[0], q, err)
			}
			helps[key] += string(out)
		}
	}
	for _, w := range run[1:] {
		name := strings.TrimLeft(w, "-")
		if name == w || name == "" {
			continue
		}
		if !regexp.MustCompile(`(?m)(^|[ ,])--?` + regexp.QuoteMeta(name) + `($|[ =,\[])`).MatchString(helps[key]) {
			t.Errorf("%s: %v: %s has no flag %s", file, run, key, w)
		}
	}
}
