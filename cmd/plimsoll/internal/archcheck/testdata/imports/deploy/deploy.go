// Package deploy imports the root.
package deploy

import "github.com/plimsoll/plimsoll/api/v1alpha1"
