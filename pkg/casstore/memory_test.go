package casstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"spool/pkg/casstore"
	"spool/pkg/casstore/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store { return casstore.NewMemory() })
}
