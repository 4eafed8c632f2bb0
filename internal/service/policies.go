package service

import (
	"fmt"
	"time"

	"spool/internal/retention"
)

// OpenPolicies reads the retention policies of the file that OpenConfig would read: its tables [[retention]], in their
// order.
func OpenPolicies(path string) ([]retention.Policy, error) {
	c, err := OpenConfig(path)
	if err != nil {
		return nil, err
	}
	return c.policies, nil
}

const policyKey = "retention"

// takePolicies reads the tables, and takes them away from the flags.
func (c *Config) takePolicies(root map[string]any) error {
	v, ok := root[policyKey]
	if !ok {
		return nil
	}
	tables, ok := v.([]map[string]any)
	if !ok {
		return nil // the table of a command
	}
	delete(root, policyKey)
	for i, table := range tables {
		p, err := policyOf(table)
		if err != nil {
			return UsageError{Err: fmt.Errorf("%s: [[retention]] %d: %w", c.path, i+1, err)}
		}
		c.policies = append(c.policies, p)
	}
	if err := retention.Validate(c.policies); err != nil {
		return UsageError{Err: fmt.Errorf("%s: [[retention]]: %w", c.path, err)}
	}
	return nil
}

func policyOf(table map[string]any) (p retention.Policy, err error) {
	text := map[string]*string{"name": &p.Name, "session": &p.Session, "cwd": &p.Cwd, "harness": &p.Harness, "title": &p.Title}
	for key, v := range table {
		s, isText := v.(string)
		n, isNumber := v.(int64)
		switch {
		case text[key] != nil && isText:
			*text[key] = s
		case key == "max-age" && isText:
			p.MaxAge, err = time.ParseDuration(s)
		case key == "max-bytes" && isNumber:
			p.MaxBytes = n
		case key == "keep-last" && isNumber:
			p.KeepLast = int(n)
		default:
			err = fmt.Errorf("%s = %v: the keys are name, session, cwd, harness, title (text with *), max-age (a duration as \"720h\"), "+
				"max-bytes and keep-last (numbers)", key, v)
		}
		if err != nil {
			return p, fmt.Errorf("%s: %w", key, err)
		}
	}
	return p, nil
}
