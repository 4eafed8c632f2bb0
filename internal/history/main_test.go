package history_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(serverVar) != "" {
		fmt.Fprintln(os.Stderr, victim())
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
