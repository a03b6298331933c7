"""The verbs of the API, without a transport: get, list, watch, create, update, patch, apply and delete."""
