"""What the controllers of a member decide: values in, values out, so that each rule of Kubernetes can be proved."""
