"""What a service hosts: the catalogue, the runner of controllers, isolation in processes."""
