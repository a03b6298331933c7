"""What a rollout will do, told before it does it: the controllers' own functions, asked step by step."""
