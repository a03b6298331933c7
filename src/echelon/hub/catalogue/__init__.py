"""What is served: resources, their versions, schemas and columns."""
